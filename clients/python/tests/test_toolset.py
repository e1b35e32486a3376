"""What models get of tools, and what they read of calls."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

import haft
from haft._outcome import outcome_of, outcome_of_error

from .test_server import add, fail, patient
from .test_transport import KEY, RESULT

Fresh = Callable[[str], str]


def result(**fields: Any) -> haft.Result:
    from haft._json import decode

    return decode(haft.Result, {**RESULT, **fields})


@pytest.mark.parametrize(
    ("fields", "text", "failed"),
    [
        ({"value": "as it is"}, "as it is", False),
        ({"value": {"a": [1, "ü"]}}, '{"a":[1,"ü"]}', False),
        ({"value": None, "stdout": "printed\n"}, "printed", False),
        ({"value": None}, "null", False),
        ({"status": "pending_approval", "approval_id": "a1"}, "pending_approval: a person has to agree", False),
        ({"status": "queued"}, "queued: the call has not ended", False),
        ({"status": "error"}, "Error (error): the call failed", True),
        (
            {"status": "error", "error": {"kind": "exception", "message": "m", "retry": "never"}, "stderr": "e"},
            "Error (exception): m\nCalling it again will not help.\nstderr:\ne",
            True,
        ),
        (
            {
                "status": "validation_error",
                "error": {
                    "kind": "validation",
                    "message": "m",
                    "retry": "changed",
                    "retry_after_ms": 1500,
                    "misfits": [{"pointer": "/a", "message": "no"}] * 30,
                },
            },
            "Error (validation): m" + "\n- /a: no" * 20 + "\nCall it again after 1.5 s with arguments that fit.",
            True,
        ),
        ({"status": "unknown", "error": {"kind": "lost", "message": "m", "retry": "same"}}, "It may have run.", True),
    ],
)
def test_a_model_reads(fields: dict[str, Any], text: str, failed: bool) -> None:
    outcome = outcome_of(result(**{"stdout": "", "stderr": "", **fields}))
    assert text in outcome.text
    assert outcome.failed is failed


def test_a_model_reads_bounded_texts() -> None:
    error = {"kind": "exception", "message": "m", "retry": "same", "traceback": "t" * 10**6}
    long = outcome_of(result(status="error", error=error, stdout="o" * 10**6, stderr="e" * 10**6))
    assert len(long.text) < 7000
    assert len(outcome_of(result(value=None, stdout="x" * 10**6)).text) == 50_000


def test_a_model_reads_no_key() -> None:
    with (
        haft.Client("http://127.0.0.1:1", KEY, retry=haft.Retry(tries=1)) as client,
        pytest.raises(haft.HaftError) as e,
    ):
        client.calls.run("a")
    assert KEY not in outcome_of_error(e.value).text


class TestToolsets:
    def test_have_no_built_in_tools_unless_they_are_asked_for(self, client: haft.Client) -> None:
        client.register(add)
        kinds = {t.name: t.version.kind for t in client.tools.list()}
        assert "builtin" in kinds.values()
        for listed in (client.toolset(), client.toolset(builtins=True)):
            assert {"add"} <= {t.name for t in listed}
        assert "builtin" not in {kinds[t.name] for t in client.toolset()}
        assert "builtin" in {kinds[t.name] for t in client.toolset(builtins=True)}
        assert [t.name for t in client.toolset("run_code")] == ["run_code"]

    @pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic", "gemini", "mcp"])
    def test_nor_have_schemas_for_vendors(self, client: haft.Client, format: haft.Format) -> None:
        client.register(add)
        texts = [
            json.dumps(client.tools.schemas(format, **o).tools) for o in ({}, {"builtins": True}, {"kind": "builtin"})
        ]
        assert ["run_code" in t for t in texts] == [False, True, True]
        assert ['"add"' in t for t in texts] == [True, True, False]
        assert client.tools.schemas(format, name=["run_code"]).tools

    def test_have_the_tools_of_an_agent(self, client: haft.Client, fresh: Fresh) -> None:
        client.register(add)
        agent = client.agents.put(fresh("agent"), tools=["add", "run_code"])
        for listed in (client.toolset(agent=agent.name), client.as_agent(agent.name).toolset()):
            assert sorted(t.name for t in listed) == ["add", "run_code"]
        assert "run_code" in json.dumps(client.as_agent(agent.name).tools.schemas("openai").tools)

    def test_are_chosen_by_tag(self, client: haft.Client, fresh: Fresh) -> None:
        tag = fresh("tag")
        client.register(add.function, name=fresh("tagged"), tags=[tag])
        assert len(client.toolset(tag=tag)) == 1

    def test_refuse_tools_that_cannot_be_called(self, client: haft.Client, fresh: Fresh) -> None:
        with pytest.raises(haft.NotFoundError, match="there is no such tool: nothing"):
            client.toolset(fresh("nothing"))
        tool = client.register(add.function, name=fresh("off"))
        client.tools.disable(tool.name)
        with pytest.raises(haft.InvalidError, match="disabled"):
            client.toolset(tool.name)
        assert tool.name not in [t.name for t in client.toolset()]

    def test_run_the_version_of_this_program(self, client: haft.Client, fresh: Fresh) -> None:
        name = fresh("pinned")
        one = client.register(add.function, name=name)
        (tool,) = client.toolset(one)
        client.tools.put(haft.Draft(name=name, source_code=add.source.replace("a + b", "a * b"), function="add"))
        assert tool.call({"a": 5, "b": 5}).text == "10"

    @pytest.mark.parametrize(
        "options",
        [{"timeout": 2.0}, {"timeout": 2.0, "on_event": lambda _: None}, {"limits": haft.Limits(wall_ms=500)}],
        ids=["waiting", "watching", "limited"],
    )
    def test_end_calls_that_take_too_long(self, client: haft.Client, fresh: Fresh, options: Any) -> None:
        turn = fresh("turn")
        (tool,) = client.toolset(patient, turn=turn, **options)
        assert tool.call({"seconds": 300}).failed
        (record,) = client.calls.list(turn=turn)
        assert client.calls.wait(record.id).status in ("timeout", "cancelled")

    def test_run_in_their_session_whatever_a_model_says(self, client: haft.Client) -> None:
        with client.sessions.create(idle=60) as mine, client.sessions.create(idle=60) as other:
            mine.run_code("x = 1")
            other.run_code("x = 2")
            (tool,) = client.toolset("run_code", session=mine)
            assert "session" not in tool.parameters["properties"]
            outcome = tool.call({"language": "python", "code": "x", "session": other.id})
            assert outcome.result is not None
            assert outcome.result.value["value"] == 1

    def test_say_which_package_is_missing(self, client: haft.Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "langchain_core.tools", None)
        with pytest.raises(haft.InvalidError, match="pip install langchain-core"):
            client.to_langchain(add)


ANSWERS: dict[haft.CallFormat, Any] = {
    "openai": {
        "role": "assistant",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"id": "c2", "type": "function", "function": {"name": "fail", "arguments": '{"message": "no"}'}},
            {"id": "c3", "type": "function", "function": {"name": "add", "arguments": "{"}},
        ],
    },
    "openai-responses": {
        "output": [
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "fail", "arguments": '{"message": "no"}'},
            {"type": "function_call", "call_id": "c3", "name": "add", "arguments": "{"},
        ]
    },
    "anthropic": {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
            {"type": "tool_use", "id": "c2", "name": "fail", "input": {"message": "no"}},
            {"type": "tool_use", "id": "c3", "name": "add", "input": {"a": "x"}},
        ],
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}},
                        {"functionCall": {"id": "c2", "name": "fail", "args": {"message": "no"}}},
                        {"functionCall": {"id": "c3", "name": "add", "args": {"a": "x"}}},
                    ],
                }
            }
        ]
    },
}


@pytest.mark.parametrize("format", ANSWERS)
def test_run_tools_has_one_answer_for_every_vendor(client: haft.Client, format: haft.CallFormat) -> None:
    client.register(add)
    client.register(fail)
    ran = client.run_tools(ANSWERS[format])
    assert ran.format == format
    assert len(ran.messages) == (3 if format.startswith("openai") else 1)
    assert [(c.id, c.name, c.result.status) for c in ran.calls] == [
        ("c1", "add", "success"),
        ("c2", "fail", "error"),
        ("c3", "add", "validation_error"),
    ]
    assert ran.calls[0].result.value == 3
    assert client.run_tools({"role": "assistant", "content": "No calls."}, format="openai").messages == []


@pytest.mark.anyio
async def test_run_tools_is_awaited(aclient: haft.AsyncClient) -> None:
    await aclient.register(add)
    ran = await aclient.run_tools(ANSWERS["anthropic"])
    assert ran.calls[0].result.value == 3
    (tool,) = await aclient.toolset(add)
    assert (await tool.call({"a": 1})).text == "3"
    assert os.environ["HAFT_KEY"] not in repr(tool)
