"""Sessions, with a server."""

from __future__ import annotations

from pathlib import Path

import pytest

import haft


def test_session(client: haft.Client, stranger: haft.Client, tmp_path: Path) -> None:
    with client.sessions.create(timeout=600, idle=300, language="python") as s:
        assert s.info.idle_timeout_ms == 300_000
        s.run_code("x = 20")
        assert s.run_code("x + 1").value == 21
        assert s.run_code("'x' in globals()", context="other").value is False
        failed = s.run_code("1 / 0")
        assert not failed.ok
        assert failed.error is not None
        assert failed.error.type == "ZeroDivisionError"
        assert {c.name for c in s.contexts()} == {"python", "other"}
        assert [v.text for c in s.contexts() if c.name == "python" for v in c.variables if v.name == "x"] == ["20"]
        s.restart()
        assert s.run_code("'x' in globals()").value is False

        done = s.run_command("cat; echo $V >&2; exit 3", env={"V": "v"}, stdin="in")
        assert (done.stdout, done.stderr, done.exit_code) == ("in", "v\n", 3)
        assert s.run_command(["echo", "$HOME", "*"]).stdout == "$HOME *\n"

        left = s.run_command("echo text > out/a.txt")
        assert left.artifacts[0].read() == b"text\n"

        s.files.write("dir/a", b"\0content")
        assert s.files.read("dir/a") == b"\0content"
        s.files.make_dir("empty")
        s.files.move("dir/a", "dir/b")
        assert [(f.name, f.type, f.size) for f in s.files.list("dir").files] == [("b", "file", 8)]
        assert s.files.list("dir", depth=0).files[0].type == "dir"
        assert s.files.download("dir/b", tmp_path).read_bytes() == b"\0content"
        (tmp_path / "up").write_text("from here")
        s.files.write("up", tmp_path / "up")
        assert s.run_command("cat up").stdout == "from here"
        with s.files.watch("dir") as changes:
            s.files.write("dir/sub/c", b"c")
            seen = next(c for c in changes if c.file.name == "c")
            assert (seen.type, seen.file.path, seen.file.size) == ("create", "/work/dir/sub/c", 1)
            s.files.remove("dir/sub")
            assert next(c.type for c in changes if c.file.name == "c") == "remove"
        with pytest.raises(haft.NotFoundError), s.files.watch("nothing"):
            pass
        with pytest.raises(haft.NotFoundError), stranger.sessions._of(s.info).files.watch("dir"):
            pass
        s.files.remove("dir")
        with pytest.raises(haft.NotFoundError):
            s.files.read("dir/b")
        with pytest.raises(FileExistsError):
            s.files.download("up", tmp_path)

        assert s.extend(timeout=60).expires_at < s.info.created_at.replace(year=s.info.created_at.year + 1)
        with pytest.raises(haft.InvalidError):
            s.extend(idle=1e-9)
        assert client.sessions.get(s.id).id == s.id
        with pytest.raises(haft.NotFoundError):
            stranger.sessions.get(s.id)
        with pytest.raises(haft.NotFoundError):
            stranger.sessions.end(s.id)
    assert s.id not in [known.id for known in client.sessions.list()]
    with pytest.raises(haft.NotFoundError):  # it names the session by its id, so that no other one is made
        s.run_code("1")
    s.close()  # again


def test_commands_that_take_input(client: haft.Client) -> None:
    with client.sessions.create() as s:
        c = s.start_command("echo begun; cat; echo over", input=True)
        c.ready()
        c.send("one\n")
        c.send(b"two\n", close=True)
        assert "".join(p.text for p in c.output() if p.stream == "stdout") == "begun\none\ntwo\nover\n"
        assert c.wait().exit_code == 0
        with pytest.raises(haft.ConflictError):
            c.send("three")

        c = s.start_command("sleep 60", input=True)
        c.ready()
        c.send(signal="SIGTERM")
        assert c.wait(timeout=60).error is not None

        parts: list[haft.OutputPart] = []
        done = s.run_command("echo out; echo err >&2", on_output=parts.append)
        assert done.ok
        assert {(p.stream, p.text) for p in parts} == {("stdout", "out\n"), ("stderr", "err\n")}

        def broken(_: haft.OutputPart) -> None:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            s.run_command("echo x; sleep 60", on_output=broken)
        assert s.run_command("true").ok  # the other one was cancelled


def test_a_key_that_only_reads(client: haft.Client) -> None:
    """Variables say themselves how they are shown, which is code that runs."""
    keys = [client.keys.issue(user="carol", roles=["admin"], scope=s) for s in (None, ["calls:read"])]
    try:
        with haft.Client(key=keys[0].secret) as carol, haft.Client(key=keys[1].secret) as reader:
            with carol.sessions.create() as s:
                s.run_code("class C:\n  def __repr__(self): open('ran', 'w').close(); return 'c'\nc = C()")
                s.files.write("f", b"x")
                read = reader.sessions.get(s.id)
                for denied in (
                    read.contexts,
                    lambda: read.files.read("f"),
                    read.restart,
                    lambda: read.files.write("f", b"y"),
                    read.extend,
                    read.close,
                ):
                    with pytest.raises(haft.DeniedError):
                        denied()
                assert "ran" not in [f.name for f in s.files.list().files]
                s.contexts()
                assert "ran" in [f.name for f in s.files.list().files]
    finally:
        for key in keys:
            client.keys.remove(key.id)


def test_an_error_ends_the_session_too(client: haft.Client) -> None:
    with pytest.raises(ZeroDivisionError):
        with client.sessions.create() as s:
            raise ZeroDivisionError
    assert s.id not in [known.id for known in client.sessions.list()]


def test_workspace_and_packages(client: haft.Client) -> None:
    client.workspaces.add("of-sessions")
    with client.sessions.create(workspace="of-sessions") as s:
        assert s.info.workspace == haft.SessionWorkspace(name="of-sessions")
        assert s.run_command("echo kept > /workspace/f").ok
    with client.sessions.create(workspace="of-sessions:ro") as s:
        assert s.run_command("cat /workspace/f").stdout == "kept\n"
        assert not s.run_command("echo lost > /workspace/f").ok
    client.workspaces.remove("of-sessions")
    with pytest.raises(haft.InvalidError, match="no such workspace"):
        client.sessions.create(workspace="of-sessions")
    with pytest.raises(haft.InvalidError, match="packages cannot be installed"):
        client.sessions.create(requirements=["-r /etc/passwd", "npm:../x"])


@pytest.mark.anyio
async def test_awaited(aclient: haft.AsyncClient) -> None:
    async with await aclient.sessions.create() as s:
        assert (await s.run_code("6 * 7")).value == 42
        parts: list[str] = []
        done = await s.run_command("echo a; echo b", on_output=lambda p: parts.append(p.text))
        assert done.ok
        assert "".join(parts) == "a\nb\n"
        await s.files.write("f", b"x")
        assert await s.files.read("f") == b"x"
        async with s.files.watch() as changes:
            await s.files.write("g", b"y")
            async for change in changes:
                if change.file.name == "g":
                    break
