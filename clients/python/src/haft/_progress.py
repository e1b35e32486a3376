"""How far a tool is."""

from __future__ import annotations

import importlib


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Report how far the call is: done of total, and a text.

    In the sandbox of a server this is seen while the tool runs. Elsewhere it does nothing.
    """
    try:
        sandbox = importlib.import_module("_haft_sandbox")
    except ImportError:
        return
    sandbox.progress(done, total, text)
