"""A tool that asks a weather service, with requests."""

import os

import requests


def weather_requests(city: str, wait: float = 20) -> str:
    """Say how warm it is.

    Args:
        city: The name of the city.
        wait: For how many seconds to wait for the weather service.
    """
    try:
        answer = requests.get(
            "https://api.weather.example/v1/now",
            params={"city": city},
            headers={"Authorization": "Bearer " + os.environ["WEATHER_KEY"]},
            timeout=wait,
        )
    except requests.Timeout:
        raise TimeoutError("the weather service takes too long") from None
    if answer.status_code == 401:
        raise PermissionError("the weather service does not accept the key")
    if answer.status_code == 429:
        raise RuntimeError(f"too many questions: ask again in {answer.headers['Retry-After']} seconds")
    if answer.status_code != 200:
        raise RuntimeError(f"the weather service failed with status {answer.status_code}")
    try:
        return f"{answer.json()['temp']} °C in {city}"
    except (requests.JSONDecodeError, KeyError):
        raise ValueError("the weather service sent something that is no weather") from None
