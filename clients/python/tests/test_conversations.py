"""What agents remember, and what is said to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest

import haft

from .test_transport import FAST, KEY

NOW = "2026-01-02T03:04:05Z"
BLOCK = {"id": "block-1", "org": "o", "label": "l", "value": "v", "limit": 9, "version": 1}
BLOCK |= {"created_at": NOW, "updated_at": NOW}
PASSAGE = {"id": "passage-1", "agent_id": "ag_1", "text": "t", "created_at": NOW}
USAGE = {"steps": 1, "input_tokens": 2, "output_tokens": 3}


def message(seq: int, role: str, text: str) -> dict[str, Any]:
    at = {"id": f"message-{seq}", "agent_id": "ag_1", "turn_id": "run-1", "seq": seq}
    return {**at, "role": role, "text": text, "created_at": NOW}


def turn(status: str) -> dict[str, Any]:
    return {"id": "run-1", "agent_id": "ag_1", "status": status, "model": "m", "usage": USAGE, "created_at": NOW}


def events(*list_: dict[str, Any], error: dict[str, str] | None = None) -> httpx.Response:
    text = "retry: 1000\n\n: heartbeat\n\n" + "".join(f"event: x\ndata: {json.dumps(e)}\n\n" for e in list_)
    if error is not None:
        text += f"event: error\ndata: {json.dumps(error)}\n\n"
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=text.encode())


class Server:
    """Answers what is asked for with the next of its answers, or with nothing."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.accepted: list[str] = []

    def client(self) -> haft.Client:
        return haft.Client("http://127.0.0.1:1", KEY, transport=httpx.MockTransport(self), retry=FAST)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.raw_path.decode()}")
        self.bodies.append(json.loads(request.content) if request.content else None)
        self.accepted.append(request.headers["accept"])
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, httpx.Response):
            return answer
        return httpx.Response(204) if answer is None else httpx.Response(200, json=answer)


def test_blocks_are_asked_for() -> None:
    server = Server(BLOCK, BLOCK, BLOCK, {"data": [BLOCK], "next_cursor": "c"}, {"data": []}, {"data": ["ag_1"]})
    with server.client() as client:
        b = client.blocks
        assert b.add("l", "v", limit=9).limit == 9
        assert b.show("block-1").version == 1
        assert b.set("block-1", value="w", version=1).label == "l"
        assert [one.id for one in b.list(agent="smith", label="l")] == ["block-1"]
        assert b.agents("block-1") == ["ag_1"]
        b.attach("smith", "block-1")
        b.detach("smith", "block-1")
        b.remove("block-1")
    assert server.bodies[0] == {"label": "l", "value": "v", "limit": 9}
    assert server.bodies[2] == {"value": "w", "version": 1}
    assert server.asked == [
        "POST /v1/blocks",
        "GET /v1/blocks/block-1",
        "PATCH /v1/blocks/block-1",
        "GET /v1/blocks?agent=smith&label=l&limit=1000",
        "GET /v1/blocks?agent=smith&label=l&limit=1000&cursor=c",
        "GET /v1/blocks/block-1/agents",
        "PUT /v1/agents/smith/blocks/block-1",
        "DELETE /v1/agents/smith/blocks/block-1",
        "DELETE /v1/blocks/block-1",
    ]


def test_passages_are_asked_for() -> None:
    server = Server(PASSAGE, {"data": [PASSAGE]}, {"data": ["a"]})
    at = datetime(2026, 1, 2, tzinfo=timezone.utc)
    with server.client() as client:
        p = client.passages
        assert p.add("smith", "t", tags=["a"]).agent_id == "ag_1"
        assert [one.text for one in p.list("smith", query="q", tags=["a", "b"], since=at, newest=True, limit=5)] == [
            "t"
        ]
        assert p.tags("smith") == ["a"]
        p.remove("smith", "passage-1")
    assert server.bodies[0] == {"text": "t", "tags": ["a"]}
    assert server.asked[1:] == [
        "GET /v1/agents/smith/passages?query=q&tags=a%2Cb&since=2026-01-02T00%3A00%3A00Z&newest=true&limit=5",
        "GET /v1/agents/smith/passages/tags",
        "DELETE /v1/agents/smith/passages/passage-1",
    ]


def test_a_message_is_answered() -> None:
    messages = [message(1, "user", "hi"), message(2, "assistant", "ho")]
    replied = {"turn": turn("completed"), "messages": messages}
    server = Server(replied, {"data": messages}, {"data": [turn("completed")]}, turn("failed"))
    with server.client() as client:
        got = client.messages.send("smith", "hi", model="m", budget=haft.Budget(max_steps=3))
        assert (got.text, got.turn.status, got.turn.usage.steps) == ("ho", "completed", 1)
        listed = client.messages.list("smith", roles=["user", "assistant"], after=0, limit=2)
        assert [m.seq for m in listed] == [1, 2]
        assert [t.id for t in client.turns.list("smith", after="run-0", limit=1)] == ["run-1"]
        assert client.turns.show("run-1").status == "failed"
        client.turns.cancel("run-1")
    assert server.bodies[0] == {"text": "hi", "model": "m", "budget": {"max_steps": 3}}
    assert server.accepted[0] == "application/json"
    assert server.asked == [
        "POST /v1/agents/smith/messages",
        "GET /v1/agents/smith/messages?after=0&roles=user%2Cassistant&limit=2",
        "GET /v1/agents/smith/turns?after=run-0&limit=1",
        "GET /v1/turns/run-1",
        "POST /v1/turns/run-1/cancel",
    ]


FIRST, SECOND = {"message": message(1, "user", "hi")}, {"message": message(2, "assistant", "ho")}


def seen(server: Server, ask: Callable[[haft.Client], Any]) -> list[Any]:
    with server.client() as client:
        return [
            e.message.seq if e.message else e.turn.status if e.turn else e.delta  # one of them is set
            for e in ask(client)
        ]


def test_a_stream_that_is_cut_goes_on_after_the_last_message() -> None:
    end = {"turn": turn("completed")}
    cut = events({"turn": turn("running")}, error={"code": "unavailable", "message": "later"})
    server = Server(events(FIRST, {"delta": "h"}), cut, events(FIRST, SECOND, end))
    got = seen(server, lambda c: c.messages.stream("smith", "hi"))
    assert got == [1, "h", "running", 2, "completed"]
    assert server.accepted == ["text/event-stream"] * 3
    assert server.asked == ["POST /v1/agents/smith/messages"] + ["GET /v1/turns/run-1/events?after=1"] * 2


def test_a_message_is_sent_once() -> None:
    server = Server(events())  # cut before anything happened
    with pytest.raises(haft.UnavailableError):
        seen(server, lambda c: c.messages.stream("smith", "hi"))
    assert len(server.asked) == 1
    server = Server(events(), events(FIRST, {"turn": turn("waiting")}))
    assert seen(server, lambda c: c.messages.stream("smith", "hi", idempotency_key="k")) == [1, "waiting"]
    assert server.asked == ["POST /v1/agents/smith/messages"] * 2


def test_a_turn_is_watched_until_it_ends() -> None:
    server = Server(events({"turn": turn("waiting")}, SECOND, {"turn": turn("failed")}))
    assert seen(server, lambda c: c.turns.watch("run-1", after=0)) == ["waiting", 2, "failed"]
    assert server.asked == ["GET /v1/turns/run-1/events?after=0"]
    server = Server(events({"turn": turn("running")}))  # where it goes on is not known
    with pytest.raises(haft.UnavailableError):
        seen(server, lambda c: c.turns.watch("run-1"))
    server = Server(events(FIRST, error={"code": "denied", "message": "no"}))
    with pytest.raises(haft.DeniedError):
        seen(server, lambda c: c.messages.stream("smith", "hi"))


def test_models_are_listed() -> None:
    server = Server({"data": [{"name": "a", "model": "b", "default": True}]})
    with server.client() as client:
        assert client.models() == [haft.Model(name="a", model="b", default=True)]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_is_no_path(name: str) -> None:
    server = Server()
    with server.client() as client:
        for ask in (
            lambda: client.blocks.remove(name),
            lambda: client.blocks.detach("smith", name),
            lambda: client.passages.remove("smith", name),
            lambda: client.messages.send(name, "hi"),
            lambda: client.turns.cancel(name),
        ):
            with pytest.raises(haft.NotFoundError):
                ask()
    assert server.asked == []
