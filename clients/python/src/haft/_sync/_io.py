"""What differs between the two ways to wait: this is the one that blocks."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

AWAITED = False
Event = threading.Event
Lock = threading.Lock
shielded = contextlib.nullcontext
sleep = time.sleep
closing = contextlib.closing

T = TypeVar("T")
P = ParamSpec("P")


def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what reads or writes files of this machine."""
    return function(*args, **kwargs)
