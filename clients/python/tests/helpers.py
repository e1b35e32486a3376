"""What tools of the tests take along from another file."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Point:
    """A point."""

    x: float
    y: float


def length(p: Point) -> float:
    return math.hypot(p.x, p.y)


class Helper:
    """Has a method."""

    def method(self, a: int) -> int:
        """Do nothing.

        Args:
            a: A number.
        """
        return a
