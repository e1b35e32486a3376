"""What differs between the two ways to wait: this is the one that blocks."""

from __future__ import annotations

import contextlib
import threading
import time

Lock = threading.Lock
sleep = time.sleep
closing = contextlib.closing
