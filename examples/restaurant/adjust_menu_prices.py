"""A tool that is more than one file and needs packages:

    haft tool add examples/restaurant
    haft run adjust_menu_prices.py --file core --requirements requirements.txt --arg percentage=10
"""

import cowsay
from tqdm import tqdm

from core.menu import sample_menu
from core.utils import format_currency


def adjust_menu_prices(percentage: float) -> str:
    """Adjust all prices of the menu by a percentage, and say hello.

    Args:
        percentage: By how many percent prices rise; a negative one lowers them.

    Returns:
        What became of each price.
    """
    cowsay.cow("Hello World")
    menu = sample_menu()
    lines = ["Price Adjustments:"]
    for item in tqdm(menu.items, disable=True):
        old = item.price
        menu.update_price(item.name, old * (1 + percentage / 100))
        lines.append(f"{item.name}: {format_currency(old)} -> {format_currency(item.price)}")
    return "\n".join(lines)
