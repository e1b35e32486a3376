"""What becomes of requests: retries, refusals, servers that misbehave."""

from __future__ import annotations

import json
import os
import pickle
import socket
import ssl
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import haft
from haft import _sse

from .faults import answer, misbehaving, read_request

KEY = "haft_" + "a" * 12 + "_" + "b" * 47
SELF = {"principal": {"org": "acme"}, "actions": [], "version": "1"}
RESULT = {
    "call_id": "c_1",
    "tool": "t",
    "status": "success",
    "value": 1,
    "stdout": "",
    "stderr": "",
    "usage": {"wall_ms": 1, "cpu_ms": 1, "max_rss_bytes": 1},
    "sandbox": {"provider": "local", "isolation": {"level": "none", "controls": None}},
    "timeline": {"total_ms": 1.5},
}
FAST = haft.Retry(tries=3, wait=0.001, max_wait=0.01)


class Script:
    """Gives answers in turn, and remembers the requests."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        if isinstance(step, httpx.Response):
            return step
        return httpx.Response(200, json=step)

    def client(self, server: str = "http://127.0.0.1:1", key: str = KEY, **options: Any) -> haft.Client:
        return haft.Client(server, key, transport=httpx.MockTransport(self), **{"retry": FAST, **options})


def problem(status: int, code: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    body = {"type": "urn:haft:error:" + code, "title": "T", "status": status, "code": code, "detail": "d", **more}
    head = {"content-type": "application/problem+json", **(headers or {})}
    return httpx.Response(status, content=json.dumps(body), headers=head)


class TestWhere:
    def test_from_arguments_before_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HAFT_SERVER", "http://127.0.0.1:2")
        monkeypatch.setenv("HAFT_KEY", KEY)
        script = Script(SELF)
        with haft.Client(transport=httpx.MockTransport(script)) as client:
            client.whoami()
        with script.client("http://127.0.0.1:3/haft/", "other") as client:
            client.whoami()
        one, two = script.requests
        assert (str(one.url), one.headers["authorization"]) == ("http://127.0.0.1:2/v1/whoami", "Bearer " + KEY)
        assert (str(two.url), two.headers["authorization"]) == ("http://127.0.0.1:3/haft/v1/whoami", "Bearer other")

    def test_from_a_file_and_else_on_this_machine(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("HAFT_SERVER", "HAFT_KEY"):
            monkeypatch.delenv(name, raising=False)
        file = tmp_path / "admin.key"
        file.write_text(KEY + "\n")
        monkeypatch.setenv("HAFT_KEY_FILE", str(file))
        script = Script(SELF)
        with haft.Client(transport=httpx.MockTransport(script)) as client:
            client.whoami()
        assert str(script.requests[0].url) == "http://127.0.0.1:7717/v1/whoami"
        assert script.requests[0].headers["authorization"] == "Bearer " + KEY
        file.unlink()
        with pytest.raises(haft.InvalidError, match="HAFT_KEY_FILE"):
            haft.Client()

    @pytest.mark.parametrize(
        "server",
        [
            "127.0.0.1",
            "ftp://a",
            "https://user:pass@a",
            "https://a?key=x",
            "https://a#b",
            "https://",
            "https://a b",
            "https://a:port",
            "https://a\r\nHost: b",
        ],
    )
    def test_refuses_what_is_no_address_and_does_not_repeat_it(self, server: str) -> None:
        with pytest.raises(haft.InvalidError, match="the address of a server is") as caught:
            haft.Client(server, KEY)
        assert "pass" not in str(caught.value)

    @pytest.mark.parametrize("key", ["a b", "a\r\nX: y", "ключ", "a\0"])
    def test_refuses_keys_that_no_key_is(self, key: str) -> None:
        with pytest.raises(haft.InvalidError, match="characters") as caught:
            haft.Client("https://a", key)
        assert key not in str(caught.value)

    @pytest.mark.parametrize("ref", ["", ".", "..", "a\0b"])
    def test_names_that_would_be_another_path_are_of_nothing(self, ref: str) -> None:
        with Script(SELF).client() as client, pytest.raises(haft.NotFoundError):
            client.tools.show(ref)

    def test_escapes_names(self) -> None:
        script = Script(problem(404, "not_found"))
        with script.client() as client, pytest.raises(haft.NotFoundError):
            client.tools.show("a/../b?x#y%z ö")
        assert script.requests[0].url.raw_path == b"/v1/tools/a%2F..%2Fb%3Fx%23y%25z%20%C3%B6"

    def test_acts_for_an_agent(self) -> None:
        script = Script(SELF)
        with script.client(agent="smith") as client:
            client.whoami()
            client.as_agent("jones").whoami()
        assert [r.url.params["as"] for r in script.requests] == ["smith", "jones"]


class TestTheKey:
    def test_is_nowhere_to_be_seen(self) -> None:
        script = Script(problem(500, "internal"), httpx.ConnectError("refused"))
        with script.client() as client:
            seen = [repr(client), str(client), repr(vars(client)), repr(vars(client._transport.target))]
            seen += [repr(vars(vars(client)["tools"]))]
            for _ in range(2):
                try:
                    client.whoami()
                except haft.HaftError as err:
                    seen += [repr(err), str(err), repr(vars(err)), "".join(traceback.format_exception(err))]
        assert all(KEY not in s for s in seen)

    def test_is_not_repeated_after_a_server(self) -> None:
        echo = problem(422, "invalid", {"x-request-id": KEY}, detail=f"not {KEY}", request_id=KEY)
        echo2 = problem(422, "invalid", misfits=[{"pointer": "/" + KEY, "message": KEY}], title=KEY, detail=None)
        bye = stream(b"event: error\ndata: " + json.dumps({"code": "conflict", "message": KEY}).encode() + b"\n\n")
        body = json.dumps({"code": "invalid", "detail": KEY}).replace("haft_", "\\u0068aft_")
        escaped = httpx.Response(422, content=body, headers={"content-type": "application/problem+json"})
        for response in (echo, echo2, bye, escaped):
            with Script(response).client() as client, pytest.raises(haft.HaftError) as caught:
                list(client.events.watch())
            assert KEY not in repr(vars(caught.value)) + str(caught.value) + repr(caught.value)
            assert "[secret]" in repr(vars(caught.value))

    def test_is_not_pickled(self) -> None:
        with Script(SELF).client() as client, pytest.raises(TypeError):
            pickle.dumps(client._transport.target)

    def test_does_not_follow_redirects(self) -> None:
        heard: list[bytes] = []

        def elsewhere(conn: socket.socket) -> None:
            heard.append(read_request(conn))
            answer(conn, json.dumps(SELF).encode())

        with misbehaving(elsewhere) as target:

            def redirect(conn: socket.socket) -> None:
                read_request(conn)
                conn.sendall(f"HTTP/1.1 307 X\r\nLocation: {target}/v1/whoami\r\nContent-Length: 0\r\n\r\n".encode())

            with misbehaving(redirect) as server, haft.Client(server, KEY, retry=FAST) as client:
                with pytest.raises(haft.UnavailableError, match="not followed") as caught:
                    client.whoami()
        assert caught.value.status == 307
        assert heard == []

    def test_is_not_sent_where_others_can_read_it(self) -> None:
        script = Script(SELF)
        with script.client("http://haft.example.com") as client:
            client.request("GET", "/v1/tools", params={"search": "ä b", "limit": 3})
        header = script.requests[0].headers["authorization"]
        assert header.startswith("HAFT-HMAC-SHA256 key=aaaaaaaaaaaa,time=")
        assert KEY not in header
        assert "b" * 47 not in header

    def test_that_is_a_token_goes_over_https_only(self) -> None:
        with pytest.raises(haft.InvalidError, match="https"):
            haft.Client("http://haft.example.com", "some.jwt.token")
        script = Script(SELF)
        with script.client("https://haft.example.com", "some.jwt.token") as client:
            client.whoami()
        assert script.requests[0].headers["authorization"] == "Bearer some.jwt.token"

    def test_signs_again_what_is_sent_again(self) -> None:
        script = Script(problem(503, "unavailable"), SELF)
        with script.client(sign=True) as client:
            client.whoami()
        one, two = (r.headers["authorization"] for r in script.requests)
        assert one != two

    def test_goes_through_no_proxy_to_this_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        heard: list[bytes] = []

        def proxy(conn: socket.socket) -> None:
            heard.append(read_request(conn))

        with misbehaving(proxy) as address:
            monkeypatch.setenv("HTTP_PROXY", address)
            monkeypatch.setenv("ALL_PROXY", address)
            with haft.Client("http://127.0.0.1:1", KEY, retry=FAST) as client, pytest.raises(haft.UnavailableError):
                client.whoami()
        assert heard == []


class TestRetries:
    @pytest.mark.parametrize(
        "fault",
        [
            httpx.ConnectError("x"),
            httpx.ReadError("x"),
            httpx.ReadTimeout("x"),
            httpx.RemoteProtocolError("x"),
            problem(503, "unavailable", {"retry-after": "0"}),
            problem(429, "rate_limited", retry_after_ms=2),
            httpx.Response(502, text="<html>"),
        ],
        ids=lambda f: type(f).__name__,
    )
    def test_of_what_only_looks_and_of_calls(self, fault: Any) -> None:
        script = Script(fault, fault, SELF)
        with script.client() as client:
            assert client.whoami().version == "1"
        assert len(script.requests) == 3
        script = Script(fault, RESULT)
        with script.client() as client:
            assert client.calls.value("t") == 1
        one, two = (json.loads(r.content) for r in script.requests)
        assert one["idempotency_key"] == two["idempotency_key"]
        assert len(one["idempotency_key"]) > 20

    def test_end(self) -> None:
        script = Script(httpx.ReadError("x"))
        with script.client() as client, pytest.raises(haft.UnavailableError):
            client.whoami()
        assert len(script.requests) == 3
        script = Script(httpx.ReadError("x"))
        with script.client(retry=haft.Retry(tries=1)) as client, pytest.raises(haft.UnavailableError):
            client.whoami()
        assert len(script.requests) == 1

    @pytest.mark.parametrize("fault", [httpx.ReadError("x"), httpx.ReadTimeout("x"), httpx.WriteError("x")])
    @pytest.mark.parametrize(
        "ask",
        [
            lambda c: c.agents.add("a"),
            lambda c: c.calls.replay("c_1"),
            lambda c: c.tool_calls({}),
            lambda c: c.chains.run([]),
            lambda c: c.tools.remove("t"),
            lambda c: c.tools.put(haft.Draft(source_code="x", new=True)),
            lambda c: c.approvals.approve("a_1"),
            lambda c: c.keys.issue(),
        ],
    )
    def test_never_of_what_may_have_been_done(self, fault: Exception, ask: Callable[[haft.Client], Any]) -> None:
        script = Script(fault)
        with script.client() as client, pytest.raises(haft.UnavailableError) as caught:
            ask(client)
        assert len(script.requests) == 1
        assert caught.value.maybe_done

    def test_of_anything_that_was_never_sent(self) -> None:
        script = Script(httpx.ConnectError("x"))
        with script.client() as client, pytest.raises(haft.UnavailableError, match="HAFT_SERVER names") as caught:
            client.agents.add("a")
        assert len(script.requests) == 3
        assert not caught.value.maybe_done

    @pytest.mark.parametrize(
        ("status", "code"),
        [(400, "invalid"), (401, "unauthenticated"), (403, "denied"), (404, "not_found"), (409, "conflict")],
    )
    def test_never_of_a_refusal(self, status: int, code: str) -> None:
        script = Script(problem(status, code))
        with script.client() as client, pytest.raises(haft.HaftError) as caught:
            client.whoami()
        assert (caught.value.code, caught.value.status, len(script.requests)) == (code, status, 1)

    def test_of_a_call_that_came_too_early_end_with_its_result(self) -> None:
        early = httpx.Response(429, json={**RESULT, "status": "rate_limited"}, headers={"retry-after": "0"})
        script = Script(early, RESULT)
        with script.client() as client:
            assert client.calls.value("t") == 1
        script = Script(early)
        with script.client() as client:
            assert client.calls.run("t").status == "rate_limited"
            assert len(script.requests) == 3
            assert client.calls.replay("c_1").status == "rate_limited"
            assert len(script.requests) == 4
            with pytest.raises(haft.RateLimitedError):
                client.whoami()

    def test_of_a_call_that_is_denied_end_with_its_result(self) -> None:
        script = Script(httpx.Response(403, json={**RESULT, "status": "permission_denied"}))
        with script.client() as client:
            assert client.calls.run("t").status == "permission_denied"
            assert len(script.requests) == 1
            with pytest.raises(haft.HaftError):
                client.whoami()

    def test_do_not_wait_longer_than_one_likes(self) -> None:
        script = Script(problem(429, "rate_limited", {"retry-after": "3600"}))
        with script.client() as client, pytest.raises(haft.RateLimitedError) as caught:
            client.whoami()
        assert (caught.value.retry_after, len(script.requests)) == (3600, 1)

    @pytest.mark.parametrize("options", [{"tries": 0}, {"tries": 100}, {"wait": -1}, {"max_wait": -1}])
    def test_have_bounds(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="tries"):
            haft.Retry(**options)


class TestRefusals:
    def test_have_the_class_of_their_code(self) -> None:
        misfits = [{"pointer": "/a", "message": "is not there"}, {"pointer": 1}, "x"]
        script = Script(problem(422, "invalid", misfits=misfits, request_id="r_1"))
        with script.client() as client, pytest.raises(haft.InvalidError) as caught:
            client.whoami()
        assert caught.value.misfits == (haft.Misfit(pointer="/a", message="is not there"),)
        assert caught.value.request_id == "r_1"
        assert str(caught.value) == "d\n  /a: is not there"

    @pytest.mark.parametrize(
        ("response", "code"),
        [
            (httpx.Response(404, text="<html>not here</html>"), "not_found"),
            (httpx.Response(418, text="teapot"), "invalid"),
            (httpx.Response(500, json={"code": "invalid"}), "internal"),
            (problem(400, "of_next_year"), "invalid"),
            (problem(500, "internal", detail=5), "internal"),
            (
                httpx.Response(500, content=b"{" * 5000, headers={"content-type": "application/problem+json"}),
                "internal",
            ),
            (httpx.Response(301, headers={"location": "http://a"}), "unavailable"),
        ],
    )
    def test_of_others_are_told_too(self, response: httpx.Response, code: str) -> None:
        with Script(response).client(retry=haft.Retry(tries=1)) as client, pytest.raises(haft.HaftError) as caught:
            client.whoami()
        assert caught.value.code == code

    def test_are_bounded(self) -> None:
        long = problem(400, "invalid", detail="x" * 100_000, misfits=[{"pointer": "/a", "message": "m"}] * 1000)
        with Script(long).client() as client, pytest.raises(haft.InvalidError) as caught:
            client.whoami()
        assert len(caught.value.message) == 4096
        assert len(caught.value.misfits) == 100


class TestServersThatMisbehave:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"nonsense",
            b"[]",
            b"null",
            b"{}",
            b'{"principal": 1}',
            b"NaN",
            b"\xff\xfe",
            b"[" * 200_000,
            b"1" * 9999,
        ],
    )
    def test_answers_that_are_none(self, body: bytes) -> None:
        def serve(conn: socket.socket) -> None:
            read_request(conn)
            answer(conn, body)

        with misbehaving(serve) as server, haft.Client(server, KEY, retry=haft.Retry(tries=1)) as client:
            with pytest.raises(haft.UnavailableError):
                client.whoami()
            with pytest.raises(haft.UnavailableError):
                list(client.tools.list())
            with pytest.raises(haft.UnavailableError):
                client.usage()

    def test_hang(self) -> None:
        def serve(conn: socket.socket) -> None:
            while conn.recv(65536):  # until the client goes
                pass

        options = {"timeout": 0.3, "call_timeout": 0.3, "retry": haft.Retry(tries=1)}
        with misbehaving(serve) as server, haft.Client(server, KEY, **options) as client:  # type: ignore[arg-type]
            with pytest.raises(haft.TimeoutError):
                client.whoami()
            with pytest.raises(TimeoutError):
                client.calls.run("t")

    def test_drip(self) -> None:
        def serve(conn: socket.socket) -> None:
            read_request(conn)
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while True:
                conn.sendall(b" ")
                conn.settimeout(0.05)
                try:
                    if not conn.recv(1):
                        return
                except TimeoutError:
                    pass

        with misbehaving(serve) as server, haft.Client(server, KEY, timeout=0.5, retry=haft.Retry(tries=1)) as client:
            with pytest.raises(haft.TimeoutError):
                client.whoami()

    def test_never_end(self) -> None:
        def serve(conn: socket.socket) -> None:
            read_request(conn)
            conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                conn.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")

        with misbehaving(serve) as server:
            with haft.Client(server, KEY, max_answer=1 << 20, retry=haft.Retry(tries=1)) as client:
                with pytest.raises(haft.UnavailableError, match="more than 1048576 bytes"):
                    client.whoami()
                with pytest.raises(haft.UnavailableError):
                    client.tool_calls({})

    def test_never_end_to_refuse(self) -> None:
        def serve(conn: socket.socket) -> None:
            read_request(conn)
            conn.sendall(b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                conn.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")

        with misbehaving(serve) as server, haft.Client(server, KEY) as client, pytest.raises(haft.DeniedError):
            client.whoami()

    def test_compress_what_nobody_asked_for(self) -> None:
        response = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"\x1f\x8b"))
        with Script(response).client(retry=haft.Retry(tries=1)) as client:
            with pytest.raises(haft.UnavailableError, match="compressed"):
                client.whoami()

    def test_list_without_end(self) -> None:
        page = {"data": [{"pointer": "/a"}], "next_cursor": "same"}
        tool = {"data": [json.loads((Path(__file__).parent / "tool.json").read_text())], "next_cursor": "same"}
        with Script(page).client() as client, pytest.raises(haft.UnavailableError):
            list(client.tools.list())
        with Script(tool).client() as client, pytest.raises(haft.UnavailableError, match="does not end"):
            list(client.tools.list())
        more = httpx.Response(200, json={"tools": []}, headers={"link": '</v1/tools?cursor=abc&limit=1>; rel="next"'})
        with Script(more).client() as client, pytest.raises(haft.UnavailableError, match="does not end"):
            client.tools.schemas("openai")

    def test_give_another_number_of_results(self) -> None:
        with Script({"results": [RESULT]}).client() as client, pytest.raises(haft.UnavailableError, match="number"):
            client.calls.batch([haft.NewCall(tool="t"), haft.NewCall(tool="t")])

    def test_without_a_certificate_that_is_believed(self) -> None:
        def serve(conn: socket.socket) -> None:
            conn.recv(65536)

        with misbehaving(serve) as server, haft.Client(server.replace("http", "https"), KEY, retry=FAST) as client:
            with pytest.raises(haft.UnavailableError, match="cannot be reached"):
                client.whoami()
        with haft.Client("https://127.0.0.1:1", KEY, tls=ssl.create_default_context()) as client:
            assert "127.0.0.1" in repr(client)


def event(cursor: int, kind: str = "tool_output") -> bytes:
    data = {"seq": cursor, "cursor": cursor, "type": kind, "time": "2026-01-01T00:00:00Z", "call_id": "c_1"}
    data |= {"tool": "t", "principal": {"org": "o"}, "data": {"stream": "stdout", "text": str(cursor)}}
    return f"id: {cursor}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


class Stream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream that is cut after its pieces."""

    def __init__(self, *pieces: bytes, fault: Exception | None = None) -> None:
        self.pieces = pieces
        self.fault = fault

    def __iter__(self) -> Any:
        yield from self.pieces
        if self.fault:
            raise self.fault

    async def __aiter__(self) -> Any:
        for piece in self:
            yield piece


def stream(*pieces: bytes, fault: Exception | None = None) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream(*pieces, fault=fault))


class TestStreams:
    def test_that_are_cut_go_on_after_the_last_event(self) -> None:
        script = Script(
            stream(b"retry: 1000\n\n: heartbeat\n\n", event(5), event(7)[:30]),
            httpx.ConnectError("x"),
            stream(event(5), event(7), b": heartbeat\nid: 9\n\n", fault=httpx.ReadError("x")),
            problem(503, "unavailable"),
            stream(b'event: error\ndata: {"type":"error","code":"unavailable","message":"slow"}\n\n'),
            stream(event(11), event(12, "tool_completed"), event(13)),
        )
        with script.client() as client:
            assert [e.cursor for e in client.calls.events("c_1")] == [5, 7, 11, 12]
        afters = [r.url.params.get("after") for r in script.requests]
        assert afters == ["0", "5", "5", "9", "9", "9"]
        assert script.requests[0].url.params["call"] == "c_1"

    def test_tell_what_is_printed(self) -> None:
        with Script(stream(event(1), event(2), event(3, "tool_completed"))).client() as client:
            assert "".join(part.text for part in client.calls.output("c_1")) == "12"

    def test_begin_now_unless_told_otherwise(self) -> None:
        script = Script(stream(event(4)))
        with script.client() as client:
            events = client.events.watch(types=["tool_output", "tool_completed"])
            assert next(iter(events)).cursor == 4
        assert "after" not in script.requests[0].url.params
        assert script.requests[0].url.params["type"] == "tool_output,tool_completed"

    def test_that_are_no_longer_kept_say_so(self) -> None:
        gone = stream(b'event: error\ndata: {"type":"error","code":"conflict","message":"not kept"}\n\n')
        with Script(gone).client() as client, pytest.raises(haft.ConflictError, match="not kept"):
            list(client.events.watch(after=3))

    def test_end_with_patience(self) -> None:
        script = Script(httpx.ConnectError("x"))
        with script.client(patience=0.05) as client, pytest.raises(haft.UnavailableError):
            list(client.events.watch())
        assert script.requests

    def test_refused_are_not_tried_again(self) -> None:
        script = Script(problem(404, "not_found"))
        with script.client() as client, pytest.raises(haft.NotFoundError):
            list(client.calls.events("c_1"))
        assert len(script.requests) == 1

    def test_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_sse, "MAX_EVENT", 1000)
        for pieces in ([b"data: " + b"x" * 2000], [b"data: x\n"] * 500):
            with Script(stream(*pieces)).client(patience=0.01) as client, pytest.raises(haft.UnavailableError):
                list(client.events.watch())

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
    def test_come_in_pieces_of_any_size(self, size: int) -> None:
        raw = (event(1) + b": beat\r\n\r\n" + event(2).replace(b"\n", b"\r\n") + event(3, "tool_completed")) * 1
        pieces = [raw[i : i + size] for i in range(0, len(raw), size)]
        with Script(stream(*pieces)).client() as client:
            assert [e.cursor for e in client.calls.events("c_1")] == [1, 2, 3]


def test_errors_survive_pickling() -> None:
    misfits = [haft.Misfit(pointer="/a", message="m")]
    err = haft.InvalidError("no", status=422, misfits=misfits, request_id="r", maybe_done=True)
    copy = pickle.loads(pickle.dumps(err))
    assert (type(copy), str(copy), copy.misfits, copy.maybe_done) == (haft.InvalidError, str(err), err.misfits, True)
    with Script({**RESULT, "status": "error"}).client() as client:
        failed = haft.CallError(client.calls.run("t"))
    assert pickle.loads(pickle.dumps(failed)).result == failed.result


def test_secrets_are_in_no_representation_of_a_request() -> None:
    from haft._request import Query

    assert "hunter2" not in repr(Query(method="PUT", body={"value": "hunter2"}))


def test_every_public_name_is_there() -> None:
    for name in haft.__all__:
        assert hasattr(haft, name)
    assert os.path.exists(os.path.join(os.path.dirname(haft.__file__), "py.typed"))  # noqa: PTH110, PTH118, PTH120
