"""The menu of the restaurant."""

from dataclasses import dataclass, field


@dataclass
class MenuItem:
    name: str
    price: float
    category: str


@dataclass
class Menu:
    items: list[MenuItem] = field(default_factory=list)

    def add(self, item: MenuItem) -> None:
        self.items.append(item)

    def update_price(self, name: str, new_price: float) -> None:
        for item in self.items:
            if item.name == name:
                item.price = new_price
                return
        raise ValueError(f"there is no {name} on the menu")


def sample_menu() -> Menu:
    menu = Menu()
    menu.add(MenuItem("Burger", 8.99, "Main"))
    menu.add(MenuItem("Fries", 2.99, "Side"))
    menu.add(MenuItem("Soda", 1.99, "Drink"))
    return menu
