"""Writes test files of tools, which `haft test` and the plug-in of pytest run.

    from haft.testing import Suite

    suite = Suite(tool="weather.py", settings={"network": ["api.weather.example"]})
    for days in (1, 7):
        suite.case(f"{days} days", args={"city": "Oslo", "days": days}, expect={"check": f"size(value) == {days}"})
    suite.write("weather_test.yaml")

The keys are those of a test file in YAML, by the same names. haft reads the file and says what is wrong in it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

__all__ = ["Suite"]

# Characters that JSON may have as they are, and YAML may not, or takes for the end of a line.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class Suite:
    """A test file."""

    def __init__(self, **keys: Any) -> None:
        self._file: dict[str, Any] = {**keys, "cases": list(keys.get("cases", []))}

    def case(self, name: str, **keys: Any) -> Suite:
        """Add a case."""
        self._file["cases"].append({"name": name, **keys})
        return self

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file. Its name has to be NAME_test.yaml or NAME.test.yaml for `haft test` to find it."""
        # JSON is YAML. A path in it becomes its text.
        text = json.dumps(self._file, indent=2, ensure_ascii=False, allow_nan=False, default=os.fspath)
        text = _ESCAPED.sub(lambda c: f"\\u{ord(c[0]):04x}", text)
        Path(path).write_text(text + "\n", encoding="utf-8")
