def pay_invoice(number: int, amount: float) -> str:
    """Pay an invoice.

    Args:
        number: The number of the invoice.
        amount: How much.
    """
    return f"paid invoice {number}: {amount:.2f}"
