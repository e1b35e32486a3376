"""An order: a list of dataclasses as argument, and one as result."""

from dataclasses import dataclass
from typing import Literal

PRICES = {"burger": 8.99, "fries": 2.99, "soda": 1.99}


@dataclass
class Line:
    """One line of an order.

    Attributes:
        dish: What is ordered.
        count: How many of it.
    """

    dish: Literal["burger", "fries", "soda"]
    count: int = 1


@dataclass
class Receipt:
    """What was ordered."""

    dishes: int
    total: float


def place_order(lines: list[Line]) -> Receipt:
    """Send an order to the kitchen.

    Args:
        lines: What is ordered.
    """
    total = sum(PRICES[line.dish] * line.count for line in lines)
    return Receipt(sum(line.count for line in lines), round(total, 2))
