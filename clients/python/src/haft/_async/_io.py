"""What differs between the two ways to wait: this is the one with ``await``."""

from __future__ import annotations

import contextlib

import anyio

Lock = anyio.Lock
sleep = anyio.sleep
closing = contextlib.aclosing
