"""The models are what the document of the API says."""

from __future__ import annotations

import dataclasses
import json
import os
import typing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

import haft
from haft import _json, _models

#: What the client calls otherwise.
RENAMED = {"Secret": "Info"}
#: What is not part of the document: the client's own, or told as anything.
OWN = {
    "AnsweredCall",
    "ToolAnswers",
    "CodeError",
    "CodeResult",
    "CodeShown",
    "Skipped",
    "Schemas",
    "OutputPart",
    "Policy",
    "Decision",
    "Considered",
    "PolicyProblem",
    "PolicyNetwork",
}
#: What is only for writing, and no part of what is read.
WRITTEN = {"if_revision", "$schema"}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    if path := os.environ.get("HAFT_OPENAPI"):
        document = json.loads(Path(path).read_text())
    elif server := os.environ.get("HAFT_SERVER"):
        document = httpx.get(server + "/openapi.json", trust_env=False).json()
    else:
        pytest.skip("HAFT_OPENAPI names no document, and HAFT_SERVER no server")
    return typing.cast(dict[str, Any], document["components"]["schemas"])


MODELS = [
    value
    for value in vars(_models).values()
    if dataclasses.is_dataclass(value) and isinstance(value, type) and value.__name__ not in OWN
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_has_the_fields_of_the_document(schemas: dict[str, Any], model: type[Any]) -> None:
    schema = schemas[RENAMED.get(model.__name__, model.__name__)]
    fields = {_json.wire_name(f.name): f for f in dataclasses.fields(model)}
    assert set(fields) == set(schema["properties"]) - WRITTEN
    hints = typing.get_type_hints(model)
    for name, field in fields.items():
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        assert optional or name in schema["required"], f"{name} may be missing"
        assert fits(hints[field.name], schema["properties"][name]), name


def fits(hint: Any, schema: dict[str, Any]) -> bool:
    """Whether an annotation is what a schema says."""
    args = [a for a in typing.get_args(hint) if a is not type(None)]
    if hint is Any:
        return "type" not in schema and "$ref" not in schema
    if typing.get_origin(hint) is typing.Literal:
        return set(args) >= set(schema["enum"])
    if "$ref" in schema:
        name: str = (args or [hint])[0].__name__
        wanted: str = schema["$ref"].split("/")[-1]
        return RENAMED.get(name, name) == wanted
    kinds = schema.get("type", [])
    kind = next((k for k in kinds if k != "null"), "") if isinstance(kinds, list) else kinds
    origin = typing.get_origin(hint)
    if origin is list:
        return kind == "array" and fits(args[0], schema["items"])
    if origin is dict:
        return kind == "object"
    if args:  # or None
        return fits(args[0], schema)
    if hint is datetime:
        return schema.get("format") == "date-time"
    return {str: "string", bytes: "string", int: "integer", float: "number", bool: "boolean"}[hint] == kind


def test_literals_of_the_client_are_those_of_the_document(schemas: dict[str, Any]) -> None:
    for alias, (of, name) in {
        "Status": ("Result", "status"),
        "Kind": ("Version", "kind"),
        "EventType": ("Event", "type"),
        "ApprovalState": ("Approval", "state"),
        "Level": ("Isolation", "level"),
        "MCPTransport": ("MCPServer", "transport"),
        "SandboxType": ("SandboxConfig", "type"),
    }.items():
        assert set(typing.get_args(getattr(haft, alias))) == set(schemas[of]["properties"][name]["enum"]), alias
    assert set(typing.get_args(haft.Code)) == {*schemas["Problem"]["properties"]["code"]["enum"], "failed"}


def test_passes_over_what_it_does_not_know() -> None:
    read = _json.decode(haft.Misfit, {"pointer": "/a", "message": "m", "of_next_year": 1})
    assert read == haft.Misfit(pointer="/a", message="m")
    event = {"seq": 1, "cursor": 1, "type": "tool_dreamt", "time": "2026-01-01T00:00:00Z"}
    event |= {"call_id": "c", "tool": "t", "principal": {"org": "o", "roles": None}}
    assert str(_json.decode(haft.Event, event).type) == "tool_dreamt"


@pytest.mark.parametrize(
    ("of", "data"),
    [
        (haft.Misfit, []),
        (haft.Misfit, None),
        (haft.Misfit, {"pointer": "/a"}),
        (haft.Misfit, {"pointer": 1, "message": ""}),
        (haft.Rate, {"burst": True}),
        (haft.Rate, {"burst": 1.5}),
        (haft.Requirements, {"pip": "numpy"}),
        (haft.ChildArgs, {"name": "a", "args": []}),
        (haft.Artifact, {"name": "a", "content_type": "b", "size": 1, "data": "!"}),
        (haft.Review, {"at": "yesterday"}),
        (haft.Review, {"at": "2026-02-31T00:00:00Z"}),
        (haft.Review, {"at": 5}),
    ],
)
def test_says_that_an_answer_is_none_of_a_server(of: type[Any], data: Any) -> None:
    with pytest.raises(haft.UnavailableError, match="not one of a Haft server"):
        _json.decode(of, data)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2026-11-15T12:30:02.5Z", datetime(2026, 11, 15, 12, 30, 2, 500000, timezone.utc)),
        ("2026-11-15T12:30:02.123456789+01:00", datetime(2026, 11, 15, 11, 30, 2, 123456, timezone.utc)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=timezone.utc)),
    ],
)
def test_reads_times_as_go_writes_them(text: str, want: datetime) -> None:
    read = _json.decode(haft.Review, {"at": text})
    assert read.at == want


def test_writes_what_was_said_and_nothing_else() -> None:
    draft = haft.Draft(
        source_code="x",
        settings=haft.Settings(limits=haft.Limits(wall_ms=5), network=["a"]),
        annotations=haft.Annotations(readOnlyHint=False),
    )
    assert json.loads(_json.dumps(draft)) == {
        "source_code": "x",
        "settings": {"limits": {"wall_ms": 5}, "network": ["a"]},
        "annotations": {"readOnlyHint": False},
    }
    step = haft.Step(id="a", tool="t", if_="true")
    assert json.loads(_json.dumps(step)) == {"id": "a", "tool": "t", "if": "true"}


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({"a": (1, 2), "b": {3}}, {"a": [1, 2], "b": [3]}),
        (timedelta(minutes=-1.5), "-PT90.000000S"),
        (b"\xff", "/w=="),
        (Path("a/b"), "a/b"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1))), "2025-12-31T23:00:00Z"),
    ],
)
def test_writes_the_types_of_python(value: Any, want: Any) -> None:
    assert json.loads(_json.dumps(value)) == want


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), 1j, print])
def test_refuses_what_json_cannot_say(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        _json.dumps(value)
