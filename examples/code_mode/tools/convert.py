from typing import Literal


def convert(euros: float, to: Literal["USD", "NOK"]) -> float:
    """Convert an amount of euros into another currency.

    Args:
        euros: The amount.
        to: The currency.
    """
    return round(euros * {"USD": 1.1, "NOK": 11.5}[to], 2)
