from typing import TypedDict


class Invoice(TypedDict):
    number: int
    sender: str
    amount: float


def find_invoices(sender: str) -> list[Invoice]:
    """Find the open invoices of a sender.

    Args:
        sender: Who wants to be paid.
    """
    known: list[Invoice] = [{"number": 7, "sender": "Print Shop", "amount": 42.0},
                            {"number": 8, "sender": "Print Shop", "amount": 960.0}]
    return [invoice for invoice in known if invoice["sender"] == sender]
