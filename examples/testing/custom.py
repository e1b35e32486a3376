"""Tools in Python with models, defaults, and mistakes of every kind."""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Item:
    """One line of an order.

    Attributes:
        name: What it is.
        count: How many of it.
        size: How large.
        notes: What else to know.
    """

    name: str
    count: int = 1
    size: Size = Size.SMALL
    notes: list[str] = field(default_factory=list)


def total(items: list[Item], currency: Literal["EUR", "USD"] = "EUR") -> dict[str, object]:
    """Add up an order.

    Args:
        items: What is ordered.
        currency: In which currency.

    Returns:
        How many things it is, and what they cost.
    """
    price = sum(item.count * (3 if item.size is Size.LARGE else 2) for item in items)
    return {"count": sum(item.count for item in items), "price": price, "currency": currency}


async def slow_echo(text: str) -> str:
    """Say a text again, a little later.

    Args:
        text: The text.
    """
    await asyncio.sleep(0.01)
    return text


def fail(how: Literal["raise", "chain", "exit", "import", "deep", "object", "write"]) -> object:
    """Fail in a way that a test asks for.

    Args:
        how: In which way.
    """
    print("about to fail", file=sys.stderr)
    match how:
        case "raise":
            raise LookupError("there is no such order: look at the list first")
        case "chain":
            try:
                {}["order"]
            except KeyError as e:
                raise RuntimeError("the shop has no orders") from e
        case "exit":
            sys.exit(3)
        case "import":
            import a_package_that_is_not_there  # noqa: F401
        case "deep":
            return fail("deep")
        case "object":
            return object()
        case "write":
            with open("/etc/passwd", "a") as f:
                f.write("x")


def remember(line: str) -> list[str]:
    """Add a line to the list in the workspace.

    Args:
        line: The line.
    """
    with open("/workspace/list.txt", "a+") as f:
        f.write(line + "\n")
        f.seek(0)
        return f.read().splitlines()


def variables() -> dict[str, str]:
    """Say which variables there are, backwards, so that they are not taken for secrets that leak."""
    return {name: value[::-1] for name, value in os.environ.items() if name.startswith("SHOP_")}
