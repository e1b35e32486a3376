"""What differs between the two ways to wait: this is the one with ``await``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

AWAITED = True
Event = anyio.Event
Lock = anyio.Lock
sleep = anyio.sleep
closing = contextlib.aclosing


def shielded() -> anyio.CancelScope:
    """Let what follows end in a short time, also if everything is cancelled."""
    return anyio.move_on_after(10, shield=True)


T = TypeVar("T")
P = ParamSpec("P")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what reads or writes files of this machine beside the event loop."""
    return await anyio.to_thread.run_sync(lambda: function(*args, **kwargs))
