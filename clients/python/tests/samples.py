"""Tools whose source the tests read. Their text is what matters: look at test_source.py."""

from __future__ import annotations

import functools
import json as j
import math
import os.path
import xml.dom.minidom
import xml.etree.ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import haft
from haft import tool
from haft import tool as instrument

from . import helpers
from .helpers import Point, length
from .helpers import length as measure

try:
    import json as parser
except ImportError:
    import nothing_of_that_name as parser  # type: ignore[import-not-found,no-redef]

if TYPE_CHECKING:
    from decimal import Decimal

client = haft.Client("http://127.0.0.1:1", "k")
LIMIT = 3
TABLE: dict[str, int] = {
    "one": 1,
    "three": LIMIT,
}
TWICE = 1
TWICE = 2
handle = object()


def decorate(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def outer(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return (text, f(*args, **kwargs))

        return inner

    return outer


@tool
def plain(a: int) -> int:
    """Add one."""
    # This comment stays.
    return a + 1  # and this one


@tool(
    timeout=2.5,
    memory="64MiB",
    network=["api.example.com"],
    requirements=["httpx"],
    tags=["a", "b"],  # with a comment
    approval=True,
)
async def several_lines(text: str) -> str:
    """Say it."""
    return j.dumps(text)


@instrument(uses=["LIMIT"])
def renamed_decorator(a: int) -> int:
    """Bound it."""
    return min(a, LIMIT)


@client.tool(name="other_name")
def of_a_client(path: str) -> str:
    """Take the last part."""
    return os.path.basename(path)  # noqa: PTH119


@haft.tool(uses=[decorate])
@decorate("""kept,
    as it is""")
def decorated(a: int) -> Any:
    """Be wrapped."""
    return math.floor(a)


def keep(f: Any) -> Any:
    return f


@keep
@haft.tool  # what is above is put on the tool, and not on the function
def below_another(a: int) -> int:
    """Stay below."""
    return a


@haft.tool(uses=[length, Point])
def with_uses(x: float, y: float) -> float:
    """Measure."""
    return length(Point(x, y))


@haft.tool(uses=[Point, length])
def with_alias(x: float) -> float:
    """Measure."""
    return measure(Point(x, x))


@haft.tool
def without_uses(x: float) -> float:
    """Measure."""
    return length(Point(x, x))


@haft.tool
def uses_own_module(x: float) -> float:
    """Measure."""
    return helpers.length(helpers.Point(x, x))


@haft.tool(uses=["TABLE", "LIMIT"])
def with_variables(word: str) -> int:
    """Look up."""
    return TABLE[word]


@haft.tool
def without_variables(word: str) -> int:
    """Look up."""
    return TABLE[word]


@haft.tool(uses=["TWICE"])
def assigned_twice() -> int:
    """Look up."""
    return TWICE


@haft.tool
def uses_a_client() -> str:
    """Ask."""
    return str(client)


@haft.tool
def uses_a_handle() -> str:
    """Ask."""
    return repr(handle)


@haft.tool
def uses_what_is_not_there() -> str:
    """Ask."""
    return nowhere  # type: ignore[name-defined,no-any-return] # noqa: F821


@haft.tool
def types_only(a: Decimal, kind: Literal["LIMIT", "TABLE"], note: Annotated[str, "handle"]) -> None:
    """Say what it takes."""


@haft.tool
def local_names_win(LIMIT: int) -> list[int]:  # noqa: N803
    """Have names of its own."""
    handle = [client * 1 for client in range(LIMIT)]
    handle.append(0)
    return handle


@haft.tool
def several_imports(text: str) -> str:
    """Parse."""
    node = xml.etree.ElementTree.fromstring(text)
    return node.tag + str(xml.dom.minidom.Node.ELEMENT_NODE) + __name__


@haft.tool
def import_in_a_branch(text: str) -> Any:
    """Parse."""
    return parser.loads(text)


@dataclass
class Base:
    """The base."""

    name: str


@dataclass
class Derived(Base):
    """More."""

    size: int = LIMIT


@haft.tool(uses=[Derived, "LIMIT", Base])
def needs_order(name: str) -> str:
    """Name it."""
    return Derived(name).name


def recursive(n: int) -> int:
    return 0 if n == 0 else even(n - 1)


def even(n: int) -> int:
    return 1 if n == 0 else recursive(n - 1)


@haft.tool(uses=[recursive, even])
def circle(n: int) -> int:
    """Go round."""
    return even(n)


@haft.tool(uses=[plain])
def calls_a_tool(a: int) -> int:
    """Use another tool's function."""
    value: int = plain(a)
    return value


def nested(value: int) -> tuple[Any, Any]:
    """Tools that are defined in a function, indented."""
    local = haft.Client("http://127.0.0.1:1", "k")

    @local.tool(
        timeout=1,
    )
    def inner(a: int) -> str:
        """Speak.

        Over several lines.
        """
        # at the depth of the body
        if a:
            return f"""{a}
        keeps its indentation
"""
        return """
    this too"""

    @local.tool
    def closure(a: int) -> int:
        """Remember."""
        return a + value

    return inner, closure
