"""Somebody who should not be there."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import haft

from .test_server import add, wipe

Fresh = Callable[[str], str]


@pytest.mark.parametrize("key", ["haft_" + "a" * 12 + "_" + "b" * 47, "nonsense", ""])
@pytest.mark.parametrize("sign", [False, True])
def test_a_wrong_key_opens_nothing(server: str, key: str, sign: bool) -> None:
    if sign and not key.startswith("haft_"):
        with pytest.raises(haft.InvalidError):
            haft.Client(server, key, sign=sign)
        return
    with haft.Client(server, key, sign=sign) as client:
        for ask in (client.whoami, lambda: list(client.tools.list()), lambda: client.calls.run("add", {"a": 1})):
            with pytest.raises(haft.UnauthenticatedError) as caught:
                ask()
            assert caught.value.status == 401
        with pytest.raises(haft.UnauthenticatedError):
            next(iter(client.events.watch(after=0)))
        with pytest.raises(haft.UnauthenticatedError):
            next(iter(client.audit.export()))


def test_a_key_of_another_tenant_finds_nothing(client: haft.Client, stranger: haft.Client, fresh: Fresh) -> None:
    name = fresh("private")
    tool = client.register(add.function, name=name)
    call = tool.run(1)
    pending = client.register(wipe).run("/tmp/a")
    assert pending.approval_id
    agent = client.agents.add(fresh("agent"))
    hook = client.webhooks.add("https://hooks.example.com/in")
    key = client.keys.issue(user="ann")
    not_there: list[Callable[[], object]] = [
        lambda: stranger.tools.show(name),
        lambda: stranger.tools.show(tool.register().id),
        lambda: stranger.tools.disable(name),
        lambda: stranger.tools.remove(name),
        lambda: list(stranger.tools.versions(name)),
        lambda: stranger.calls.run(name, {"a": 1}),
        lambda: stranger.calls.show(call.call_id),
        lambda: stranger.calls.replay(call.call_id),
        lambda: stranger.calls.cancel(call.call_id),
        lambda: stranger.calls.wait(call.call_id),
        lambda: list(stranger.calls.events(call.call_id)),
        lambda: stranger.approvals.show(pending.approval_id or ""),
        lambda: stranger.approvals.approve(pending.approval_id or ""),
        lambda: stranger.agents.show(agent.id),
        lambda: stranger.agents.attach(agent.name, name),
        lambda: stranger.secrets.put("A", "bbbbbbbb", agent=agent.name),
        lambda: stranger.webhooks.show(hook.id),
        lambda: stranger.keys.show(key.id),
        lambda: stranger.keys.rotate(key.id),
    ]
    for ask in not_there:
        with pytest.raises(haft.NotFoundError) as caught:
            ask()
        assert caught.value.status == 404
        assert name not in str(caught.value)
    assert name not in [t.name for t in stranger.tools.list(disabled=True)]
    assert call.call_id not in [r.id for r in stranger.calls.list()]
    assert call.call_id.encode() not in b"".join(stranger.audit.export())
    client.webhooks.remove(hook.id)
    client.calls.cancel(pending.call_id)


def test_a_key_for_one_tool_does_no_more(client: haft.Client) -> None:
    client.register(add)
    client.register(wipe)
    key = client.keys.issue(user="ann", roles=["admin"], scope=["calls:write", "tool:add"])
    with haft.Client(key=key.secret) as confined:
        assert confined.calls.value("add", {"a": 1}) == 3
        assert confined.calls.run("wipe", {"path": "/"}).status == "permission_denied"
        for ask in (lambda: confined.tools.remove("add"), lambda: confined.keys.issue(), lambda: confined.audit.keys()):
            with pytest.raises(haft.DeniedError):
                ask()


def test_arguments_are_data(client: haft.Client) -> None:
    tool = client.register(add)
    result = tool.run("__import__('os').system('true')")  # type: ignore[arg-type]
    assert result.status == "validation_error"
    assert "__import__" not in repr(result.error)


def test_what_is_huge_is_refused_and_not_sent_again(client: haft.Client) -> None:
    client.register(add)
    with pytest.raises(haft.HaftError) as caught:
        client.calls.run("add", {"a": "x" * (64 << 20)})
    assert caught.value.code in ("invalid", "unavailable")  # the server may close before all is sent


def test_a_replayed_signature_is_refused(server: str) -> None:
    import httpx

    from haft._request import Query, Target

    target = Target(server, os.environ["HAFT_KEY"], None, True, {})
    request = target.request(Query(path="/v1/whoami"), 30)
    with httpx.Client(trust_env=False) as http:
        assert http.send(request).status_code == 200
        assert http.send(request).status_code == 401
