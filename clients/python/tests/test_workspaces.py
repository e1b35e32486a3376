"""Directories that outlive calls."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import haft

from .test_transport import FAST, KEY, RESULT

SIZE = {"bytes": 3, "inodes": 1}
NOW = "2026-01-02T03:04:05Z"
WORKSPACE = {"name": "w", "quota": SIZE, "used": {}, "enforced": "measured", "created_at": NOW, "changed_at": NOW}
ANSWERS: dict[str, Any] = {
    "POST /v1/workspaces": WORKSPACE,
    "GET /v1/workspaces/w": {**WORKSPACE, "origins": ["v"]},
    "GET /v1/workspaces/w/files?dir=d": {"entries": [{"path": "d/f", "kind": "file", "size": 3, "modified_at": NOW}]},
    "GET /v1/workspaces/w%40s/diff?to=w": {"changes": [{"path": "f", "change": "added", "after": 3}]},
    "POST /v1/calls": {**RESULT, "workspace": {"name": "w", "used": SIZE, "quota": SIZE, "enforced": "measured"}},
}


class Server:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.bodies: list[bytes] = []

    def client(self) -> haft.Client:
        return haft.Client("http://127.0.0.1:1", KEY, transport=httpx.MockTransport(self), retry=FAST)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        name = f"{request.method} {request.url.raw_path.decode()}"
        self.asked.append(name)
        self.bodies.append(request.content)
        if "/files/content" in name:
            return httpx.Response(200, content=b"abc")
        return httpx.Response(200, json=ANSWERS[name]) if name in ANSWERS else httpx.Response(204)


def test_workspaces_are_asked_for() -> None:
    server = Server()
    with server.client() as client:
        w = client.workspaces
        assert w.add("w", source="v@s", quota=haft.WorkspaceSize(bytes=3)).quota.bytes == 3
        assert w.show("w").origins == ["v"]
        assert w.files("w", "d").entries[0].size == 3
        assert w.read("w", "a b") == b"abc"
        w.write("w", "f", b"xyz")
        w.delete("w", "f")
        assert w.snapshot("w", "s").quota.inodes == 1
        w.restore("w", "w@s")
        assert w.diff("w@s", "w").changes[0].change == "added"
        w.remove("w")
    assert json.loads(server.bodies[0])["from"] == "v@s"
    assert server.bodies[4] == b"xyz"
    assert json.loads(server.bodies[6]) == {"name": "w@s"}
    assert json.loads(server.bodies[7]) == {"from": "w@s"}
    assert server.asked[3:] == [
        "GET /v1/workspaces/w/files/content?path=a+b",
        "PUT /v1/workspaces/w/files?path=f",
        "DELETE /v1/workspaces/w/files?path=f",
        "POST /v1/workspaces",
        "POST /v1/workspaces/w/restore",
        "GET /v1/workspaces/w%40s/diff?to=w",
        "DELETE /v1/workspaces/w",
    ]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("w", {"name": "w", "read_only": False}),
        ("w:ro", {"name": "w", "read_only": True}),
        (haft.CallWorkspace(name="w", workdir=True), {"name": "w", "workdir": True}),
    ],
)
def test_a_call_names_its_workspace(given: Any, sent: dict[str, Any]) -> None:
    server = Server()
    with server.client() as client:
        result = client.calls.run("f", workspace=given)
    assert result.workspace is not None
    assert result.workspace.used.bytes == 3
    body = json.loads(server.bodies[0])["workspace"]
    assert {k: body.get(k, False) for k in sent} == sent


@pytest.mark.parametrize("name", ["", ".", "..", "a/../b"])
def test_a_name_is_no_path(name: str) -> None:
    server = Server()
    with server.client() as client:
        try:
            client.workspaces.remove(name)
        except haft.HaftError:
            assert server.asked == []
        else:
            assert server.asked == ["DELETE /v1/workspaces/a%2F..%2Fb"]
