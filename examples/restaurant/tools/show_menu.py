"""The menu, as data that a model can read."""

from typing import TypedDict


class Dish(TypedDict):
    name: str
    price: float


def show_menu() -> list[Dish]:
    """Show what the kitchen has today, with prices in dollars."""
    return [{"name": "burger", "price": 8.99}, {"name": "fries", "price": 2.99}, {"name": "soda", "price": 1.99}]
