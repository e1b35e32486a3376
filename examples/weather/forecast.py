"""A tool whose argument and result are Pydantic models.

It needs no network: the weather is read from the file weather.json beside it.
"""

import json
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field


class Place(BaseModel):
    """Where somebody wants to go."""

    city: str = Field(min_length=1, description="The name of the city.")
    country: str = Field(pattern="^[A-Z]{2}$", description="Two letters, such as NO.")


class Day(BaseModel):
    day: date
    sky: Literal["sun", "clouds", "rain", "snow"]
    low: float
    high: float


class Forecast(BaseModel):
    place: Place
    days: list[Day]
    coldest: float


def forecast(place: Place, days: int = 2, unit: Literal["C", "F"] = "C") -> Forecast:
    """Say what the weather will be.

    Args:
        place: Where.
        days: How many days ahead, at most 3.
        unit: The unit of the temperatures.
    """
    known = json.loads(Path("weather.json").read_text())
    try:
        rows = known[f"{place.city}, {place.country}"]
    except KeyError:
        raise ValueError(f"there is no forecast for {place.city}; there are: {'; '.join(known)}") from None
    found = [Day.model_validate(row) for row in rows[:days]]
    if unit == "F":
        for day in found:
            day.low, day.high = day.low * 9 / 5 + 32, day.high * 9 / 5 + 32
    return Forecast(place=place, days=found, coldest=min(day.low for day in found))
