"""Files that go to tools, and artifacts that come back."""

from __future__ import annotations

import base64
import copy
import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import httpx
import pytest

import haft
from haft import _files

from .test_transport import FAST, KEY, RESULT, problem

ID = "file_0000000000001abc"


class Kept:
    """A server with one file. ``faults`` are what it does with parts that arrive."""

    def __init__(self, *faults: str) -> None:
        self.content = b""
        self.size = 0
        self.faults = list(faults)
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []
        self.artifacts: list[dict[str, Any]] = []

    def client(self, **options: Any) -> haft.Client:
        transport = httpx.MockTransport(self)
        return haft.Client("http://127.0.0.1:1", KEY, transport=transport, **{"retry": FAST, **options})

    def asked(self) -> list[str]:
        return [f"{r.method} {r.url.raw_path.decode()}" for r in self.requests]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.bodies.append(request.content)
        if request.url.path == "/v1/calls":
            return httpx.Response(200, json={**RESULT, "artifacts": self.artifacts})
        if "Range" in request.headers:
            first, last = request.headers["Range"].removeprefix("bytes=").split("-")
            return httpx.Response(206, content=self.content[int(first) : int(last) + 1])
        if request.method == "POST":
            self.content, self.size = request.content, int(request.url.params.get("size", 0))
        if request.method == "PATCH":
            fault = self.faults.pop(0) if self.faults else ""
            if fault == "refuse":
                return problem(422, "invalid")
            if int(request.url.params["offset"]) != len(self.content):
                return problem(409, "conflict")
            if fault != "lose":
                self.content += request.content
            if fault in ("lose", "mute"):
                raise httpx.ReadError("cut")
            if fault == "ignore":
                self.content = self.content[: -len(request.content)]
        when = "2026-01-01T00:00:00Z"
        file = {"id": ID, "name": "n", "content_type": "t", "size": self.size, "uploaded": len(self.content)}
        return httpx.Response(200, json={**file, "created_at": when, "expires_at": when})


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("haft._sync._files", "haft._sync._content"):
        monkeypatch.setattr(f"{module}.PART", 4)
    monkeypatch.setattr("haft._sync._calls.MAX_INLINE", 8)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("faults", [[], ["lose"], ["mute"], ["lose", "mute", "", "mute", "lose"]], ids=str)
def test_parts_that_are_lost_are_sent_again(faults: list[str]) -> None:
    kept = Kept(*faults)
    with kept.client() as client:
        file = client.files.upload(b"0123456789ab", name="n")
        assert (file.uploaded, kept.content) == (12, b"0123456789ab")
        assert kept.asked()[0] == "POST /v1/files?name=n&size=12"
        assert client.files.read(file) == kept.content


@pytest.mark.usefixtures("small_parts")
def test_an_upload_that_fails(tmp_path: Path) -> None:
    kept = Kept("refuse")
    with kept.client() as client, pytest.raises(haft.InvalidError):
        client.files.upload(b"0123456789", name="n")
    assert kept.asked()[-1] == f"DELETE /v1/files/{ID}"  # nothing is left behind

    kept = Kept("ignore")
    with kept.client() as client, pytest.raises(haft.UnavailableError, match="did not keep"):
        client.files.upload(b"0123456789", name="n")

    kept = Kept("lose", "lose", "lose")
    path = tmp_path / "n"
    path.write_bytes(b"0123456789")
    with kept.client() as client:
        with pytest.raises(haft.UnavailableError):
            client.files.upload(path)
        assert kept.content == b"0123"
        assert client.files.upload(path, resume=ID).uploaded == 10
        assert kept.content == b"0123456789"
        with pytest.raises(haft.InvalidError, match="another size"):
            client.files.upload(b"01234", resume=ID)


def test_what_can_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"hello")
    kept = Kept()

    def sent(content: Any) -> tuple[bytes, str | None]:
        client.files.upload(content)
        return kept.content, kept.requests[-1].url.params.get("name")

    with kept.client() as client:
        assert sent(path) == sent(str(path)) == (b"hello", "a.txt")
        assert sent(b"hello") == sent(memoryview(b"hello")) == (b"hello", None)
        assert sent(b"") == (b"", None)
        with path.open("rb") as file:
            file.seek(2)
            assert sent(file) == sent(file) == (b"llo", "a.txt")  # from where it stands, and left there
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as file:
            os.write(writer, b"piped")
            os.close(writer)
            assert sent(file) == (b"piped", None)
        for wrong in (io.StringIO("text"), 5, None, tmp_path, "/dev/zero"):
            with pytest.raises(haft.InvalidError):
                sent(wrong)
        with pytest.raises(FileNotFoundError):
            sent(tmp_path / "none")


@pytest.mark.usefixtures("small_parts")
def test_files_of_a_call(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"hello")
    a = {"path": "a.txt", "data": base64.b64encode(b"hello").decode()}
    kept = Kept()
    with kept.client() as client:

        def sent(files: Any) -> Any:
            client.calls.run("t", files=files)
            return json.loads(kept.bodies[-1]).get("files")

        assert sent(None) is None
        assert sent([]) is None
        assert sent(tmp_path / "a.txt") == sent([str(tmp_path / "a.txt")]) == [a]
        assert sent({"b/c.txt": tmp_path / "a.txt"}) == [{**a, "path": "b/c.txt"}]
        assert sent({"empty": b""}) == [{"path": "empty", "data": ""}]
        assert sent(ID) == sent([haft.CallFile(id=ID, sha256="0")]) == [{"id": ID}]
        assert sent({"x": ID}) == sent({"x": client.files.show(ID)}) == [{"id": ID, "path": "x"}]
        # What is too much for one request is added before.
        assert sent({"a.txt": b"hello", "d/b": b"0123456789"}) == [a, {"id": ID, "path": "d/b"}]
        assert (kept.content, kept.requests[-4].url.params["name"]) == (b"0123456789", "b")
        with pytest.raises(haft.InvalidError, match="need a name"):
            sent([b"hello"])
        call = haft.NewCall(tool="t", files={"a.txt": b"hell"})
        with pytest.raises(haft.UnavailableError):  # this server knows no batches
            client.calls.batch([call, call])
        assert [c["files"][0]["path"] for c in json.loads(kept.bodies[-1])["calls"]] == ["a.txt"] * 2


def result(kept: Kept, name: str, **more: Any) -> haft.Artifact:
    kept.artifacts = [{"name": name, "content_type": "t", "size": len(kept.content), **more}]
    return kept.client(max_answer=10_000).calls.run("t").artifacts[0]


@pytest.mark.usefixtures("small_parts")
def test_artifacts_are_read_and_saved(tmp_path: Path) -> None:
    kept = Kept()
    kept.content = b"0123456789"
    artifact = result(kept, "sub/a ü.txt", file_id=ID)
    assert artifact.read() == kept.content
    assert kept.asked()[-1] == "GET /v1/calls/c_1/artifacts/sub%2Fa%20%C3%BC.txt"
    assert artifact.save(tmp_path) == tmp_path / "sub" / "a ü.txt"
    assert artifact.save(tmp_path / "mine").read_bytes() == kept.content
    assert artifact.save(f"{tmp_path}/new/").read_bytes() == kept.content
    with pytest.raises(FileExistsError):
        artifact.save(tmp_path)
    # What came with the result is not asked for.
    asked = len(kept.requests) + 1
    inline = result(kept, "b", data=base64.b64encode(kept.content).decode())
    assert (inline.read(), inline.save(tmp_path).read_bytes()) == (kept.content, kept.content)
    assert len(kept.requests) == asked
    # A copy has no client, and so no key.
    for other in (pickle.loads(pickle.dumps(artifact)), copy.deepcopy(artifact)):
        assert other == artifact
        with pytest.raises(haft.InvalidError):
            other.read()


@pytest.mark.usefixtures("small_parts")
def test_content_that_is_not_what_was_said(tmp_path: Path) -> None:
    kept = Kept()
    kept.content = b"01234567"
    artifact = result(kept, "a")
    kept.content = b"01234"
    with pytest.raises(haft.UnavailableError, match="another part"):
        artifact.save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []  # nothing half-done
    kept.content = b"x" * 20_000
    with pytest.raises(haft.InvalidError, match="save it"):
        result(kept, "a").read()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/x",
        "..",
        "../x",
        "a/../../x",
        "a//x",
        "a/",
        ".",
        ".bashrc",
        "a/.git/x",
        "a\\..\\x",
        "C:x",
        "c:/x",
        "x\0y",
    ],
)
def test_a_name_leads_to_nowhere_else(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    artifact = result(Kept(), name)
    with pytest.raises(haft.InvalidError, match="below the directory"):
        artifact.save(inside)
    assert list(tmp_path.rglob("*")) == [inside]
    assert artifact.save(tmp_path / "mine").exists()  # the caller's name is another thing


def test_links_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "sub").symlink_to(outside)
    (inside / "a").symlink_to(outside / "a")
    with pytest.raises(haft.InvalidError, match="link"):
        result(Kept(), "sub/a").save(inside)
    for to in (inside, inside / "a"):
        with pytest.raises(FileExistsError):
            result(Kept(), "a").save(to)
    assert list(outside.iterdir()) == []


@haft.tool
def shout() -> int:
    """Write a file in capitals."""
    out = Path("out/sub")
    out.mkdir()
    return (out / "loud.txt").write_text(Path("in.txt").read_text().upper())


@haft.tool
def inflate(size: int) -> None:
    """Leave a large file.

    Args:
        size: How large.
    """
    Path("out/large.bin").write_bytes(b"x" * size)


def test_with_a_server(client: haft.Client, stranger: haft.Client, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("hello")
    tool = client.register(shout)
    call = tool.with_options(files=path).run()
    assert call.unwrap() == 5
    assert call.artifacts[0].read() == b"HELLO"
    assert call.artifacts[0].save(tmp_path) == tmp_path / "sub" / "loud.txt"
    assert client.calls.show(call.call_id).call.files[0].path == "in.txt"

    # One that is sent in parts, by its id and as it is.
    path.write_bytes(b"hello" * 1_000_000)
    file = client.files.upload(path)
    assert file.sha256
    assert file in list(client.files.list(limit=10))
    assert client.files.read(file.id) == path.read_bytes()
    for given in (file, file.id, path):
        [result] = client.calls.batch([haft.NewCall(tool="shout", files=given)])
        assert result.unwrap() == 5_000_000
    assert client.files.upload(b"", name="empty").size == 0
    for ask in (stranger.files.show, stranger.files.read, stranger.files.remove):
        with pytest.raises(haft.NotFoundError):
            ask(file.id)
    assert client.files.download(file, tmp_path / "copy").read_bytes() == path.read_bytes()
    client.files.remove(file)
    with pytest.raises(haft.NotFoundError):
        client.files.show(file)

    # One that is too large for the record of its call.
    left = client.register(inflate).run(9_000_000).artifacts[0]
    assert left.file_id
    assert left.save(tmp_path).stat().st_size == 9_000_000


@pytest.mark.anyio
async def test_awaited_with_a_server(aclient: haft.AsyncClient, tmp_path: Path) -> None:
    tool = await aclient.register(shout)
    call = await tool.with_options(files={"in.txt": b"hello"}).run()
    assert await call.artifacts[0].aread() == b"HELLO"
    assert (await call.artifacts[0].asave(tmp_path)).read_bytes() == b"HELLO"
    with pytest.raises(haft.InvalidError, match="AsyncClient"):
        call.artifacts[0].read()
    file = await aclient.files.upload(io.BytesIO(b"hello"), name="in.txt", ttl=60)
    assert await (tool.with_options(files=[file])).remote() == 5
    assert await aclient.files.read(file) == b"hello"
    await aclient.files.remove(file)


def test_parts_fit_into_requests() -> None:
    assert _files.PART <= 8 << 20  # the bound of a server on a body
    assert _files.MAX_INLINE * 4 / 3 < 4 << 20  # the bound on content in a call
