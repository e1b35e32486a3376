def forecast(city: str, days: int = 3) -> list[str]:
    """Say what the weather will be.

    Args:
        city: The name of the city.
        days: How many days ahead, 7 at most.
    """
    if not 1 <= days <= 7:
        raise ValueError("days must be between 1 and 7")
    return [f"{city}, day {n + 1}: sun" for n in range(days)]
