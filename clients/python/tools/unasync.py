"""Makes the blocking client of the awaited one, so that there is one text to maintain.

python tools/unasync.py            writes src/haft/_sync
python tools/unasync.py --check    fails if it is not what it should be
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "haft"
HEAD = "# Made by tools/unasync.py of ../_async/{name}: change that one.\n"
#: Written by hand on both sides: what there is to wait with.
OWN = {"_io.py"}

RULES = [
    (
        r"The client that is awaited\. The one that blocks is made of it by tools/unasync\.py\.",
        "The client that blocks.",
    ),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"\bhaft\.AsyncClient\b", "haft.Client"),
    (r"\bhttpx\.AsyncBaseTransport\b", "httpx.BaseTransport"),
    (r"\bAsync(Iterator|Client|Transport|[A-Z]\w+)\b", r"\1"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\ba(close|iter_bytes)\b", r"\1"),
]


def convert(name: str, text: str) -> str:
    """Make the text of a blocking module."""
    for pattern, to in RULES:
        text = re.sub(pattern, to, text)
    return HEAD.format(name=name) + text


def main() -> int:
    check = "--check" in sys.argv[1:]
    bad = []
    for file in sorted((SOURCE / "_async").glob("*.py")):
        if file.name in OWN:
            continue
        to = SOURCE / "_sync" / file.name
        text = convert(file.name, file.read_text(encoding="utf-8"))
        if to.exists() and to.read_text(encoding="utf-8") == text:
            continue
        if check:
            bad.append(to.name)
        else:
            to.write_text(text, encoding="utf-8")
    if bad:
        print(f"run tools/unasync.py: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
