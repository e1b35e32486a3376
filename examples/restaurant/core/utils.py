"""Words and numbers."""


def format_currency(value: float) -> str:
    return f"${value:.2f}"
