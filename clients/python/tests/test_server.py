"""Every resource, against a real server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

import pytest

import haft

Fresh = Callable[[str], str]


class Color(Enum):
    RED = "red"


@dataclass
class Order:
    """An order."""

    number: int
    color: Color
    when: datetime


@haft.tool(timeout=20)
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: The other.
    """
    print("adding")
    return a + b


@haft.tool(uses=[Order, Color], requirements=[])
def ship(order: Order, tags: set[str]) -> dict[str, Any]:
    """Ship an order.

    Args:
        order: What to ship.
        tags: What to write on it.
    """
    return {"number": order.number + 1, "red": order.color is Color.RED, "year": order.when.year, "tags": sorted(tags)}


@haft.tool
def fail(message: str) -> None:
    """Fail.

    Args:
        message: With what.
    """
    raise RuntimeError(message)


@haft.tool
async def patient(seconds: float) -> str:
    """Wait.

    Args:
        seconds: How long.
    """
    import asyncio

    print("waiting", flush=True)
    await asyncio.sleep(seconds)
    return "done"


@haft.tool(approval=True)
def wipe(path: str) -> str:
    """Wipe something.

    Args:
        path: What to wipe.
    """
    return "wiped " + path


@haft.tool
def environment(name: str) -> str | None:
    """Look up a variable.

    Args:
        name: Its name.
    """
    import os

    return os.environ.get(name)


def test_whoami(client: haft.Client) -> None:
    me = client.whoami()
    assert me.principal.user == "admin"
    assert "tools:write" in me.actions


class TestTools:
    def test_are_registered_once_and_called(self, client: haft.Client) -> None:
        tool = client.register(add)
        again = tool.register(again=True)
        assert again.unchanged
        assert again.version.source_code == add.source
        assert tool(1) == tool.local(1) == 3
        assert tool.remote(40) == 42
        result = tool.run(1, b=1)
        assert (result.value, result.stdout, result.ok, result.final) == (2, "adding\n", True, True)
        assert result.sandbox.provider
        assert result.digest == again.version.digest

    def test_are_registered_by_their_first_call(self, client: haft.Client, fresh: Fresh) -> None:
        name = fresh("lazy")

        @client.tool(name=name, tags=["sky"])
        def lazy(a: int) -> int:
            """Square a number.

            Args:
                a: The number.
            """
            return a * a

        with pytest.raises(haft.NotFoundError):
            client.tools.show(name)
        assert lazy.remote(a=5) == 25
        assert client.tools.show(name).tags == ["sky"]
        assert client.register(lazy) is lazy

    def test_run_the_version_that_their_source_is(self, client: haft.Client, fresh: Fresh) -> None:
        name = fresh("pinned")
        one = client.register(add.function, name=name)
        # Somebody else gives the tool of that name another source.
        client.tools.put(haft.Draft(name=name, source_code=add.source.replace("a + b", "a * b"), function="add"))
        assert one.remote(5, 5) == 10
        assert client.calls.value(name, {"a": 5, "b": 5}) == 25
        numbers = [v.number for v in client.tools.versions(name)]
        assert numbers == [2, 1]
        assert client.tools.version(name, 1).digest == one.register().version.digest
        assert client.tools.set(name, version=1).version.number == 1
        assert client.calls.value(name, {"a": 5, "b": 5}) == 10

    def test_take_arguments_of_the_types_of_python(self, client: haft.Client) -> None:
        tool = client.register(ship)
        order = Order(1, Color.RED, datetime(2026, 11, 15, tzinfo=timezone.utc))
        assert tool.remote(order, tags={"b", "a"}) == {"number": 2, "red": True, "year": 2026, "tags": ["a", "b"]}

    def test_list_page_by_page(self, client: haft.Client, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
        tag = fresh("tag")
        names = sorted(fresh("paged") for _ in range(5))
        for name in names:
            client.tools.put(haft.Draft(name=name, source_code=add.source, function="add", tags=[tag]))
        monkeypatch.setattr("haft._sync._transport._PAGE", 2)
        assert [t.name for t in client.tools.list(tag=tag)] == names
        assert [t.name for t in client.tools.list(tag=tag, limit=3)] == names[:3]
        assert [t.name for t in client.tools.list(name=[names[3], names[1], "nothing"])] == [names[1], names[3]]
        client.tools.disable(names[0])
        assert [t.name for t in client.tools.list(tag=tag, enabled=False)] == names[:1]
        with pytest.raises(haft.HaftError):
            client.calls.value(names[0], {"a": 1})
        assert not client.tools.enable(names[0]).disabled
        client.tools.remove(names[0])
        with pytest.raises(haft.NotFoundError):
            client.tools.remove(names[0])

    @pytest.mark.parametrize(
        ("format", "path"),
        [
            ("openai", ["function", "parameters"]),
            ("openai-responses", ["parameters"]),
            ("anthropic", ["input_schema"]),
            ("gemini", ["functionDeclarations", 0, "parameters"]),
            ("mcp", ["inputSchema"]),
        ],
    )
    def test_in_the_form_of_a_vendor(self, client: haft.Client, format: haft.Format, path: list[Any]) -> None:
        tool = client.register(add)
        found = tool.schema(format)
        for step in path:
            found = found[step]
        assert set(found["properties"]) == {"a", "b"}
        assert tool.schema()["required"] == ["a"]
        assert client.tools.schemas(format).tools

    def test_that_cannot_be_derived_are_refused_with_the_reason(self, client: haft.Client) -> None:
        with pytest.raises(haft.InvalidError, match="it has no type annotation") as caught:
            client.tools.put(haft.Draft(source_code='def f(a):\n    """F."""\n'))
        assert caught.value.status == 422
        assert caught.value.request_id

    def test_say_where_a_request_does_not_fit(self, client: haft.Client) -> None:
        with pytest.raises(haft.InvalidError) as caught:
            client.request("POST", "/v1/calls", body={"tool": "add", "wait": "soon"})
        assert caught.value.misfits
        assert caught.value.misfits[0].pointer.startswith("/wait")

    def test_wait_for_review_if_they_look_dangerous(
        self, client: haft.Client, approver: haft.Client, fresh: Fresh
    ) -> None:
        name = fresh("danger")
        source = add.source.replace("a + b", "eval(str(a + b))")
        added = client.tools.put(haft.Draft(name=name, function="add", source_code=source))
        if added.waiting is None:
            pytest.skip("the rules of this server ask nobody about eval")
        assert approver.tools.review(name, accept=True, reason="seen").version.number == added.waiting


class TestCalls:
    def test_that_fail_are_results_or_errors_as_one_likes(self, client: haft.Client) -> None:
        tool = client.register(fail)
        result = tool.run("no luck")
        assert (result.status, result.ok) == ("error", False)
        assert result.error is not None
        assert result.error.type == "RuntimeError"
        with pytest.raises(haft.CallError, match="no luck") as caught:
            tool.remote("no luck")
        assert caught.value.result.status == "error"
        assert caught.value.code == "failed"

    def test_with_arguments_that_do_not_fit_say_where(self, client: haft.Client) -> None:
        tool = client.register(add)
        with pytest.raises(haft.CallError) as caught:
            tool.remote("one")  # type: ignore[arg-type]
        assert caught.value.result.status == "validation_error"
        assert [m.pointer for m in caught.value.misfits] == ["/a"]

    def test_of_what_is_not_there(self, client: haft.Client) -> None:
        with pytest.raises(haft.NotFoundError) as caught:
            client.calls.run("nothing_of_that_name")
        assert caught.value.code == "not_found"

    def test_start_go_on_and_are_waited_for(self, client: haft.Client) -> None:
        started = client.register(patient).start(0.2)
        assert not started.final
        assert client.calls.wait(started.call_id).value == "done"
        record = client.calls.show(started.call_id)
        assert (record.status, record.call.args) == ("success", {"seconds": 0.2})
        assert record.id == started.call_id

    def test_that_are_not_done_in_time_can_be_cancelled(self, client: haft.Client) -> None:
        started = client.register(patient).start(25)
        with pytest.raises(haft.TimeoutError):
            client.calls.wait(started.call_id, timeout=0.1)
        client.calls.cancel(started.call_id)
        assert client.calls.wait(started.call_id).status == "cancelled"
        client.calls.cancel(started.call_id)

    def test_tell_what_they_print_while_they_run(self, client: haft.Client) -> None:
        started = client.register(patient).start(25)
        printed = next(iter(client.calls.output(started.call_id)))
        assert printed.stream == "stdout"
        assert not client.calls.show(started.call_id).final
        assert client.calls.cancel_all() >= 1
        events = list(client.calls.events(started.call_id))
        assert events[-1].type == "tool_completed"
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        assert list(client.calls.events(started.call_id, after=events[-2].cursor)) == events[-1:]

    def test_with_one_key_are_made_once(self, client: haft.Client, fresh: Fresh) -> None:
        client.register(add)
        key = fresh("key")
        one = client.calls.run("add", {"a": 1}, idempotency_key=key)
        two = client.calls.run("add", {"a": 1}, idempotency_key=key)
        assert one.call_id == two.call_id
        with pytest.raises(haft.ConflictError):
            client.calls.run("add", {"a": 2}, idempotency_key=key)

    def test_have_keys_of_their_own(self, client: haft.Client) -> None:
        client.register(add)
        assert client.calls.run("add", {"a": 1}).call_id != client.calls.run("add", {"a": 1}).call_id

    def test_are_listed(self, client: haft.Client, fresh: Fresh) -> None:
        client.register(add)
        turn = fresh("turn")
        before = datetime.now(timezone.utc) - timedelta(minutes=5)
        ids = [client.calls.run("add", {"a": n}, turn=turn).call_id for n in range(3)]
        assert [r.id for r in client.calls.list(turn=turn)] == ids[::-1]
        assert [r.id for r in client.calls.list(turn=turn, oldest_first=True, since=before, limit=2)] == ids[:2]
        assert list(client.calls.list(turn=turn, status=["error", "timeout"])) == []

    def test_in_a_batch(self, client: haft.Client) -> None:
        client.register(add)
        client.register(fail)
        calls = [haft.NewCall(tool="add", args={"a": n}) for n in range(3)]
        results = client.calls.batch([*calls, haft.NewCall(tool="fail", args={"message": "x"})])
        assert [r.value for r in results] == [2, 3, 4, None]
        assert results[-1].status == "error"
        assert client.calls.batch([]) == []

    def test_in_a_chain(self, client: haft.Client) -> None:
        client.register(add)
        steps = [
            haft.Step(id="one", tool="add", args={"a": {"$from": "input/n"}}),
            haft.Step(id="two", tool="add", args={"a": {"$from": "one.value"}}, if_="steps.one.value > 0"),
        ]
        chain = client.chains.run(steps, input={"n": 5})
        assert chain.status == "success"
        results = [s.result.value for s in chain.steps if s.result]
        assert results == [7, 9]
        assert client.chains.show(chain.id).status == "success"
        background = client.chains.run(haft.Plan(steps=steps, input={"n": 1}, background=True))
        assert client.chains.wait(background.id, timeout=60).status == "success"

    def test_are_replayed(self, client: haft.Client) -> None:
        first = client.register(add).run(3)
        second = client.calls.replay(first.call_id)
        assert second.value == 5
        assert second.call_id != first.call_id

    def test_have_the_environment_that_is_given(self, client: haft.Client) -> None:
        client.register(environment)
        assert client.calls.value("environment", {"name": "SKY"}, env={"SKY": "blue"}) == "blue"

    def test_have_limits(self, client: haft.Client) -> None:
        client.register(patient)
        result = client.calls.run("patient", {"seconds": 20}, limits=haft.Limits(wall_ms=500))
        assert result.status == "timeout"


class TestToolCalls:
    def test_of_openai(self, client: haft.Client) -> None:
        client.register(add)
        call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
        answer = {"role": "assistant", "content": None, "tool_calls": [call]}
        assert client.tool_calls(answer) == [{"role": "tool", "tool_call_id": "call_1", "content": "3"}]

    def test_of_anthropic_as_the_object_of_an_sdk(self, client: haft.Client) -> None:
        pydantic = pytest.importorskip("pydantic")
        client.register(add)
        block = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": "x"}}
        message = pydantic.create_model("Message", role=(str, ...), content=(list[dict[str, Any]], ...))
        reply = client.tool_calls(message(role="assistant", content=[block]))
        assert reply["role"] == "user"
        assert reply["content"][0]["tool_use_id"] == "toolu_1"
        assert reply["content"][0]["is_error"] is True

    def test_that_are_none(self, client: haft.Client) -> None:
        with pytest.raises(haft.InvalidError):
            client.tool_calls({"hello": "world"})


class TestApprovals:
    def test_are_given_by_somebody_else(self, client: haft.Client, approver: haft.Client, fresh: Fresh) -> None:
        tool = client.register(wipe)
        path = fresh("/tmp/x")
        result = tool.run(path)
        assert result.status == "pending_approval"
        assert result.approval_id
        with pytest.raises(haft.CallError, match="pending_approval"):
            result.unwrap()
        assert result.approval_id in [a.id for a in approver.approvals.list(state="pending", tool="wipe")]
        with pytest.raises(haft.DeniedError):
            client.approvals.approve(result.approval_id)
        assert approver.approvals.show(result.approval_id).args == {"path": path}
        assert approver.approvals.approve(result.approval_id, reason="fine").approver is not None
        assert client.calls.wait(result.call_id, approval=True).value == "wiped " + path

    def test_are_waited_for(self, client: haft.Client, approver: haft.Client, fresh: Fresh) -> None:
        result = client.register(wipe).run(fresh("/tmp/y"))
        assert result.approval_id
        later = threading.Timer(0.1, approver.approvals.approve, [result.approval_id], {"args": {"path": "/tmp/z"}})
        later.start()
        assert client.calls.wait(result.call_id, approval=True, timeout=60).value == "wiped /tmp/z"
        later.join()

    def test_are_denied(self, client: haft.Client, approver: haft.Client, fresh: Fresh) -> None:
        result = client.register(wipe).run(fresh("/tmp/n"))
        assert result.approval_id
        approver.approvals.deny(result.approval_id, reason="not today")
        assert client.calls.wait(result.call_id).status == "denied_by_approver"
        with pytest.raises(haft.ConflictError):
            approver.approvals.approve(result.approval_id)


class TestAgents:
    def test_have_tools_and_variables(self, client: haft.Client, fresh: Fresh) -> None:
        client.register(add)
        client.register(environment)
        name = fresh("agent")
        agent = client.agents.add(name, env={"SKY": "grey"})
        with pytest.raises(haft.ConflictError):
            client.agents.add(name)
        assert client.agents.attach(name, "environment").tools == ["environment"]
        assert client.agents.attach(agent.id, "add").tools == ["environment", "add"]
        assert client.agents.detach(name, "add").tools == ["environment"]
        assert name in [a.name for a in client.agents.list(tool="environment")]
        assert client.calls.value("environment", {"name": "SKY"}, agent=name) == "[redacted:SKY]"
        assert client.agents.set(name, env={"SEA": "green", "SKY": None}).env.keys() == {"SEA"}
        with haft.Client(agent=name) as acting:
            assert acting.calls.value("environment", {"name": "SEA"}) == "[redacted:SEA]"
        acting = client.as_agent(name)
        assert [t.name for t in acting.tools.list()] == ["environment"]
        with pytest.raises(haft.NotFoundError):
            acting.calls.value("add", {"a": 1})
        assert client.register(environment).with_options(agent=name).remote("SEA") == "[redacted:SEA]"
        rule = haft.ToolRule(type="max_count_per_step", tool_name="environment", max_count_limit=1)
        put = client.agents.put(name, tools=["environment"], tool_rules=[rule])
        assert put.tool_rules == [rule]
        assert client.agents.show(name).id == agent.id
        client.agents.remove(name)
        with pytest.raises(haft.NotFoundError):
            client.agents.show(name)


class TestSecrets:
    def test_are_had_by_tools_and_never_shown(self, client: haft.Client, fresh: Fresh) -> None:
        client.register(environment)
        name = fresh("TOKEN").upper()
        client.secrets.put(name, "hunter2-hunter2")
        assert "hunter2" not in repr(list(client.secrets.list()))
        assert client.calls.value("environment", {"name": name}) != "hunter2-hunter2"  # it is redacted on its way out
        assert client.calls.value("environment", {"name": name}) is not None
        client.secrets.remove(name)
        assert client.calls.value("environment", {"name": name}) is None

    def test_of_an_agent_bound_to_hosts(self, client: haft.Client, fresh: Fresh) -> None:
        agent = client.agents.add(fresh("agent"))
        name = fresh("BOUND").upper()
        binding = haft.Binding(hosts=["api.example.com"], header="Authorization", prefix="Bearer ")
        client.secrets.put(name, "hunter3-hunter3", agent=agent.name, bound=binding)
        listed = {s.name: s for s in client.secrets.list(agent=agent.name)}
        assert listed[name].bound == binding
        assert name not in [s.name for s in client.secrets.list()]
        client.secrets.remove(name, agent=agent.name)


class TestEvents:
    def test_are_watched_from_a_cursor_on(self, client: haft.Client) -> None:
        tool = client.register(add)
        first = tool.run(1)
        cursor = list(client.calls.events(first.call_id))[-1].cursor
        second = tool.run(2)
        stream = client.events.watch(after=cursor, tool="add", types=["tool_completed"])
        event = next(e for e in stream if e.call_id == second.call_id)
        assert event.type == "tool_completed"
        assert event.principal.user == "admin"


class TestOthers:
    def test_keys(self, client: haft.Client) -> None:
        key = client.keys.issue(name="ci", user="ann", scope=["tools:read"])
        assert key.secret not in repr(key)
        with haft.Client(key=key.secret) as other:
            assert other.whoami().principal.user == "ann"
            with pytest.raises(haft.DeniedError):
                other.agents.add("x")
        assert client.keys.show(key.id).name == "ci"
        assert key.id in [k.id for k in client.keys.list()]
        rotated = client.keys.rotate(key.id)
        with haft.Client(key=key.secret) as other, pytest.raises(haft.UnauthenticatedError):
            other.whoami()
        with haft.Client(key=rotated.secret, sign=True) as other:
            assert other.whoami().principal.user == "ann"
            assert [t.name for t in other.tools.list(search="fetch a page", limit=1)]
        assert client.keys.set(key.id, disabled=True).disabled
        client.keys.remove(key.id)

    def test_webhooks(self, client: haft.Client) -> None:
        hook = client.webhooks.add("https://hooks.example.com/in", types=["tool_completed"])
        assert hook.secret.startswith("whsec_")
        assert hook.secret not in repr(hook)
        put = client.webhooks.put(hook.id, hook.url, description="of a test", disabled=True)
        assert (put.description, put.disabled) == ("of a test", True)
        assert client.webhooks.show(hook.id).url == hook.url
        assert list(client.webhooks.dead_letters(hook.id)) == []
        assert hook.id in [w.id for w in client.webhooks.list()]
        client.webhooks.remove(hook.id)

    def test_policies(self, client: haft.Client, stranger: haft.Client) -> None:
        first = stranger.policies.put('version: 1\nroles: {admin: ["tool:*"]}\n')
        assert stranger.policies.show() == first
        text = (
            first.text + 'rules:\n  - {id: no-pages, effect: deny, tools: ["tool:fetch_webpage"], reason: not here}\n'
        )
        with pytest.raises(haft.ConflictError):
            stranger.policies.put(text, new=True)
        second = stranger.policies.put(text, if_revision=first.revision)
        assert second.revision not in ("", first.revision)
        with pytest.raises(haft.ConflictError):
            stranger.policies.put(text, if_revision=first.revision)
        with pytest.raises(haft.InvalidError):
            stranger.policies.put("version: 7\n")
        assert stranger.policies.show().text == text
        denied = stranger.policies.explain("fetch_webpage", {"url": "https://example.com"})
        assert (denied.effect, denied.rule) == ("deny", "org/no-pages")
        assert [c.matched for c in denied.considered if c.rule == "org/no-pages"] == [True]
        assert stranger.policies.explain("run_code", {"language": "python", "code": "1"}).effect == "allow"
        as_ann = client.policies.explain("fetch_webpage", {"url": "https://example.com"}, user="ann", roles=["user"])
        assert as_ann.reason
        with pytest.raises(haft.NotFoundError):
            client.policies.explain("nothing_of_that_name")
        with pytest.raises(haft.DeniedError):
            stranger.policies.show("server")

    def test_sandbox_configs(self, client: haft.Client, stranger: haft.Client) -> None:
        made = client.sandbox_configs.add("local", limits=haft.Limits(wall_ms=9000), network=["api.example.com"])
        try:
            assert made.limits == haft.Limits(wall_ms=9000)
            with pytest.raises(haft.ConflictError):
                client.sandbox_configs.add("local")
            put = client.sandbox_configs.put("local", description="ours")
            assert (put.id, put.description, put.network) == (made.id, "ours", [])
            assert client.sandbox_configs.show(made.id) == put
            assert [c.type for c in client.sandbox_configs.list()] == ["local"]
            with pytest.raises(haft.NotFoundError):
                stranger.sandbox_configs.show(made.id)
        finally:
            client.sandbox_configs.remove("local")
        with pytest.raises(haft.NotFoundError):
            client.sandbox_configs.remove("local")

    def test_mcp_servers(self, client: haft.Client, stranger: haft.Client, fresh: Fresh) -> None:
        name = fresh("mcp")
        put = client.mcp_servers.put(name, url="https://mcp.example.com", headers={"X-Key": "hunter4"}, disabled=True)
        assert (put.server.name, put.server.transport, put.server.disabled) == (name, "http", True)
        assert "hunter4" not in repr(put) + str(put.server.headers)
        shown = client.mcp_servers.show(put.server.id)
        assert shown.name == name
        assert name in [s.name for s in client.mcp_servers.list()]
        with pytest.raises(haft.DeniedError):
            client.mcp_servers.refresh(name)
        with pytest.raises(haft.InvalidError):
            client.mcp_servers.put(name, url="file:///etc/passwd")
        with pytest.raises(haft.NotFoundError):
            stranger.mcp_servers.show(put.server.id)
        client.mcp_servers.remove(name)
        with pytest.raises(haft.NotFoundError):
            client.mcp_servers.show(name)

    def test_tools_of_mcp_servers(self, client: haft.Client, fresh: Fresh) -> None:
        if not (url := os.environ.get("HAFT_MCP_URL")):
            pytest.skip("HAFT_MCP_URL names no MCP server that the server may reach")
        client.register(add)
        name = fresh("mcp")
        headers = {"Authorization": f"Bearer {os.environ['HAFT_KEY']}"}
        change = client.mcp_servers.put(name, url=url, headers=headers)
        assert change.server.state
        assert change.server.state.error is None
        assert f"{name}__add" in change.added
        assert client.mcp_servers.refresh(name, accept=True).server.id == change.server.id
        assert client.calls.run(f"{name}__add", {"a": 40}).ok
        assert client.mcp_servers.login(name, "http://127.0.0.1:1/back") == ""
        with pytest.raises(haft.HaftError):
            client.mcp_servers.finish_login(name, state="none such", code="x")
        client.mcp_servers.remove(name)
        with pytest.raises(haft.NotFoundError):
            client.tools.show(f"{name}__add")

    def test_usage(self, client: haft.Client) -> None:
        client.register(add).run(1)
        sums = {s.tool: s for s in client.usage(by=["tool", "day"], tool="add")}
        assert sums["add"].calls >= 1

    def test_audit(self, client: haft.Client) -> None:
        client.register(add).run(1)
        assert client.audit.entries(limit=2)[-1]["hash"]
        assert "BEGIN PUBLIC KEY" in client.audit.keys()
        export = b"".join(client.audit.export())
        assert export.count(b"\n") > 2

    def test_anything_else(self, client: haft.Client) -> None:
        answer = client.request("POST", "/v1/policies/explain", body={"tool": "add", "args": {"a": 1}})
        assert answer
        assert client.request("GET", "/v1/sandbox_configs", params={"limit": 5})["data"] is not None
        with pytest.raises(haft.InvalidError):
            client.request("GET", "//example.com/v1/tools")
