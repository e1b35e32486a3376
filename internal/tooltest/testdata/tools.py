import os
import random
import time
from datetime import datetime, timezone


def echo(text: str, times: int = 1) -> dict[str, object]:
    """Say a text again, and look around.

    Args:
        text: What to say.
        times: How often.
    """
    print(text)
    if not 0 <= times <= 9:
        raise ValueError("times must be between 0 and 9")
    found = sorted(set(os.listdir(".")) - {"out", ".haft"})
    with open("said.txt", "w") as f:
        f.write(text)
    return {"text": text * times, "files": found, "env": os.environ.get("WORD", ""), "token": os.environ.get("TOKEN", "")}


def divide(a: int, b: int) -> float:
    """Divide a number by another one.

    Args:
        a: The one.
        b: The other.
    """
    return a / b


def now() -> dict[str, object]:
    """Say what time it is, and a random number."""
    return {"iso": datetime.now(timezone.utc).isoformat(), "time": time.time(), "number": random.randint(1, 1000)}


def keep(line: str) -> str:
    """Write a line into the workspace.

    Args:
        line: The line.
    """
    with open("/workspace/lines.txt", "a") as f:
        f.write(line + "\n")
    return open("/workspace/lines.txt").read()


def wait(seconds: float) -> float:
    """Wait.

    Args:
        seconds: How long.
    """
    time.sleep(seconds)
    return seconds
