"""A tool for `make demo`: standard library only, with a dataclass as argument."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Literal


class Speed(Enum):
    SLOW = "slow"
    FAST = "fast"


@dataclass
class Leg:
    """One part of a trip.

    Attributes:
        place: Where this part ends.
        km: How far it is.
    """

    place: str
    km: float


def plan_trip(
    start: date,
    legs: list[Leg],
    speed: Speed = Speed.SLOW,
    unit: Literal["km", "mi"] = "km",
) -> dict[str, str | float]:
    """Plan a trip and say when it ends.

    Args:
        start: The first day.
        legs: The parts of the trip, in order.
        speed: How fast to travel.
        unit: The unit of the distance in the answer.

    Returns:
        The route, its length and its last day.
    """
    total = sum(leg.km for leg in legs)
    days = total / (800 if speed is Speed.FAST else 300)
    last = date.fromordinal(start.toordinal() + int(days))
    print(f"{len(legs)} legs, {speed.value}")
    return {
        "route": " → ".join(leg.place for leg in legs),
        "distance": round(total if unit == "km" else total / 1.609344, 1),
        "unit": unit,
        "ends": last.isoformat(),
    }
