from __future__ import annotations

import functools
import importlib.util
import inspect
import subprocess
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pytest

import haft

from . import samples
from .helpers import Helper


def run(source: str, name: str, *args: Any) -> Any:
    """Run a source as a server would: with nothing else around it."""
    module = types.ModuleType("tool")
    sys.modules["tool"] = module  # dataclasses look for their module
    try:
        exec(compile(source, "tool.py", "exec"), module.__dict__)
        return getattr(module, name)(*args)
    finally:
        del sys.modules["tool"]


def test_is_the_function_without_its_decorator() -> None:
    assert samples.plain.source == (
        "from __future__ import annotations\n\n\n"
        "def plain(a: int) -> int:\n"
        '    """Add one."""\n'
        "    # This comment stays.\n"
        "    return a + 1  # and this one\n"
    )
    assert samples.plain.local(1) == 2
    assert samples.plain.__name__ == "plain"
    assert samples.plain.__doc__ == "Add one."


def test_has_the_imports_that_it_uses_and_no_others() -> None:
    source = samples.several_lines.source
    assert source.startswith("from __future__ import annotations\n\n\nimport json as j\n\n\nasync def several_lines(")
    assert "@tool" not in source
    assert "import os.path" in samples.of_a_client.source
    assert run(samples.of_a_client.source, "of_a_client", "/a/b") == "b"


def test_says_how_it_is_to_be_run() -> None:
    draft = samples.several_lines.draft
    assert draft.settings == haft.Settings(
        limits=haft.Limits(wall_ms=2500, memory_bytes=64 << 20),
        network=["api.example.com"],
        requires_approval=True,
    )
    assert draft.requirements == haft.Requirements(pip=["httpx"])
    assert draft.tags == ["a", "b"]
    assert draft.function == "several_lines"
    assert samples.of_a_client.draft.name == "other_name"
    assert samples.of_a_client.name == "other_name"


def test_knows_its_decorator_by_any_name() -> None:
    source = samples.renamed_decorator.source
    assert "@" not in source
    assert "LIMIT = 3" in source
    assert run(source, "renamed_decorator", 9) == 3


def test_keeps_decorators_below_its_own() -> None:
    source = samples.decorated.source
    assert '@decorate("""kept,\n    as it is""")\ndef decorated' in source
    assert "@haft.tool" not in source
    assert run(source, "decorated", 2) == ("kept,\n    as it is", 2)


def test_leaves_out_decorators_above_its_own() -> None:
    assert "keep" not in samples.below_another.source
    assert "@" not in samples.below_another.source


def test_takes_along_what_uses_names() -> None:
    source = samples.with_uses.source
    assert source.index("class Point") < source.index("def length") < source.index("def with_uses")
    assert "import math" in source
    assert "from dataclasses import dataclass" in source
    assert run(source, "with_uses", 3, 4) == 5
    assert "measure = length" in samples.with_alias.source
    assert run(samples.with_alias.source, "with_alias", 0) == 0


def test_takes_along_variables_by_their_statement() -> None:
    source = samples.with_variables.source
    assert source.index("LIMIT = 3") < source.index("TABLE: dict[str, int] = {\n") < source.index("def with_variables")
    assert run(source, "with_variables", "three") == 3


def test_puts_everything_in_an_order_that_runs() -> None:
    source = samples.needs_order.source
    assert source.index("LIMIT = 3") < source.index("class Derived")
    assert source.index("class Base") < source.index("class Derived")
    assert run(source, "needs_order", "x") == "x"
    assert run(samples.circle.source, "circle", 4) == 1


def test_may_use_the_function_of_another_tool() -> None:
    source = samples.calls_a_tool.source
    assert "@tool" not in source
    assert run(source, "calls_a_tool", 1) == 2


def test_has_every_import_that_gives_a_name() -> None:
    source = samples.several_imports.source
    assert "import xml.dom.minidom\n" in source
    assert "import xml.etree.ElementTree\n" in source
    assert run(source, "several_imports", "<a/>") == "a1tool"


def test_has_the_import_that_gave_a_name_of_several_in_branches() -> None:
    source = samples.import_in_a_branch.source
    assert "import json as parser\n" in source
    assert "nothing" not in source
    assert run(source, "import_in_a_branch", "[1]") == [1]


def load(file: Path, text: str) -> Any:
    """Import a file."""
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_counts_lines_as_python_does(tmp_path: Path) -> None:
    text = 'import haft\n\x0c\n@haft.tool(description="\u2028", tags=[\n"\x0b"])\n'
    text += 'def odd(a: int) -> str:\n    return """\u2028\n  \x85"""\n'
    module = load(tmp_path / "odd.py", text)
    assert module.odd.source.startswith("def odd(")
    assert run(module.odd.source, "odd", 1) == module.odd.local(1)


def test_does_not_guess_what_an_import_of_everything_gives(tmp_path: Path) -> None:
    text = "import haft\nfrom cmath import *\n@haft.tool\ndef turn(x: float) -> float:\n    return polar(x)[0]\n"
    with pytest.raises(haft.SourceError, match=r"uses polar, which an import of \* may give"):
        _ = load(tmp_path / "starred.py", text).turn.source


def test_needs_no_more_than_annotations_say() -> None:
    source = samples.types_only.source
    assert "from decimal import Decimal" in source
    assert "from typing import Annotated" in source
    assert "from typing import Literal" in source
    assert "handle = " not in source
    assert "LIMIT = " not in source


def test_local_names_are_not_taken_for_those_of_the_module() -> None:
    assert run(samples.local_names_win.source, "local_names_win", 2) == [0, 1, 0]


def test_takes_the_indentation_off_but_not_out_of_strings() -> None:
    inner, _ = samples.nested(1)
    assert inner.source.startswith("from __future__ import annotations\n\n\ndef inner(a: int) -> str:\n")
    assert "    # at the depth of the body\n" in inner.source
    for a in (0, 7):
        assert run(inner.source, "inner", a) == inner.local(a)


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (samples.without_uses, r"uses (Point|length) of .*helpers, which is code of yours: name it in uses="),
        (samples.uses_own_module, "uses helpers of ., which is code of yours"),
        (samples.without_variables, r'uses the variable TABLE: name it in uses=\["TABLE"\]'),
        (samples.assigned_twice, "TWICE is given a value more than once"),
        (samples.uses_a_client, "uses client, of type Client, which was made when the program ran"),
        (samples.uses_a_handle, "uses handle, of type object, which was made when the program ran"),
        (samples.uses_what_is_not_there, "uses nowhere, which its module does not have"),
        (samples.nested(1)[1], "is a closure over value"),
    ],
)
def test_says_what_cannot_be_had(tool: Any, reason: str) -> None:
    with pytest.raises(haft.SourceError, match=reason):
        _ = tool.source


def generator(a: int) -> Any:
    """Count."""
    yield a


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (lambda a: a, "lambda"),
        (Helper.method, "is a method"),
        (Helper().method, "method"),
        (staticmethod(samples.plain.function), "method"),
        (functools.partial(samples.even, 1), "partial"),
        (print, "written in Python"),
        (Helper, "written in Python"),
        (3, "written in Python"),
        (generator, "generator"),
    ],
)
def test_refuses_at_once_what_can_never_be_a_tool(thing: Any, reason: str) -> None:
    with pytest.raises(haft.SourceError, match=reason):
        haft.tool(thing)


def test_refuses_what_has_no_file() -> None:
    module: dict[str, Any] = {}
    exec('def typed(a: int) -> int:\n    """Type."""\n    return a\n', module)
    with pytest.raises(haft.SourceError, match="not typed at a prompt"):
        _ = haft.tool(module["typed"]).source


@pytest.mark.parametrize("option", ["tags", "network", "secrets", "requirements", "uses"])
def test_refuses_one_text_where_a_list_belongs(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        haft.tool(**{option: "numpy"})  # type: ignore[call-overload]


def test_refuses_options_that_there_are_not() -> None:
    with pytest.raises(TypeError):
        haft.tool(timeuot=3)  # type: ignore[call-overload]


@pytest.mark.parametrize(("text", "size"), [("64MiB", 64 << 20), ("1 gb", 10**9), ("12", 12), (5, 5)])
def test_reads_sizes(text: int | str, size: int) -> None:
    draft = haft.tool(memory=text)(samples.plain.function).draft
    assert draft.settings == haft.Settings(limits=haft.Limits(memory_bytes=size), parallel=True)


@pytest.mark.parametrize(
    ("options", "parallel"),
    [
        ({}, True),
        ({"timeout": 3, "requirements": ["numpy"]}, True),
        ({"network": ["example.com"]}, False),
        ({"secrets": ["KEY"]}, False),
        ({"settings": haft.Settings()}, False),
        ({"parallel": False}, False),
        ({"parallel": True, "network": ["example.com"]}, True),
    ],
)
def test_may_run_beside_others_if_nobody_can_see_the_order(options: Any, parallel: bool) -> None:
    settings = haft.tool(**options)(samples.plain.function).draft.settings
    assert (settings is not None and settings.parallel) is parallel


def test_may_not_run_beside_others_if_it_takes_the_state_of_an_agent(tmp_path: Path) -> None:
    text = "import haft\n@haft.tool\ndef remember(agent_state, a: int) -> int:\n    return a\n"
    assert load(tmp_path / "remember.py", text).remember.draft.settings is None


class TestPlainCalls:
    def test_are_refused_before_there_is_a_server(self) -> None:
        with pytest.raises(haft.InvalidError, match=r"client\.register\(plain\).*plain\.local"):
            samples.plain(1)

    def test_run_here_from_within_a_tool_that_runs_here(self) -> None:
        assert samples.calls_a_tool.local(1) == 2
        with pytest.raises(haft.InvalidError):
            samples.plain(1)

    def test_run_on_the_server_of_their_client(self) -> None:
        tool = haft.Client("http://127.0.0.1:1", "k", retry=haft.Retry(tries=1)).tool(samples.plain.function)
        with tool.client, pytest.raises(haft.UnavailableError):
            tool(1)

    def test_run_here_with_a_warning_if_the_decorator_says_so(self) -> None:
        tool = haft.tool(local=True)(samples.plain.function)
        with pytest.warns(DeprecationWarning, match=r"plain\.local"):
            assert tool(1) == 2

    def test_cannot_be_got_around_by_taking_the_decorator_off(self) -> None:
        assert inspect.unwrap(samples.plain) is samples.plain
        assert inspect.signature(samples.plain) == inspect.signature(samples.plain.function)
        assert typing.get_type_hints(samples.plain) == {"a": int, "return": int}


def test_arguments_have_the_names_of_the_function() -> None:
    assert samples.with_uses.arguments(1, y=2) == {"x": 1, "y": 2}
    with pytest.raises(TypeError, match="unexpected"):
        samples.with_uses.arguments(z=1)  # type: ignore[call-arg]


def test_says_that_it_is_not_at_a_server_yet() -> None:
    with pytest.raises(AttributeError, match=r"client.register\(plain\)"):
        samples.plain.remote(1)  # type: ignore[attr-defined]
    assert not hasattr(samples.plain, "anything")


def test_refuses_what_was_typed_at_a_prompt() -> None:
    code = """
import haft
@haft.tool
def typed(a: int) -> int:
    return a

try:
    typed.source
except haft.SourceError as err:
    print(err)
"""
    run = subprocess.run([sys.executable], input=code, capture_output=True, text=True, check=True)
    assert "it has to be in a file, and not typed at a prompt" in run.stdout


def test_importing_a_module_with_tools_sends_nothing() -> None:
    # The client of samples has an address where nobody listens, and sockets are forbidden.
    code = (
        "import socket\n"
        "def no(*a, **k): raise SystemExit('the network was used')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = no\n"
        "import tests.samples as s\n"
        "print(s.of_a_client.name)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "other_name\n"
