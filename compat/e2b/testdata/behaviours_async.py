"""What E2B's own client for Python does asynchronously, against Haft. Each function is one behaviour."""
import asyncio, os, sys, time, traceback

from e2b import (AsyncSandbox, CommandExitException, NotFoundException, TimeoutException, FilesystemEventType, PtySize)

behaviours = []


def behaviour(f):
    behaviours.append(f)
    return f


async def raises(kind, awaited):
    try:
        await awaited
    except kind as e:
        return e
    raise AssertionError("no %s" % kind.__name__)


async def until(what, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        if what():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it does not happen")


@behaviour
async def run(s):
    r = await s.commands.run("echo hello; echo oops >&2")
    assert r.stdout == "hello\n" and r.stderr == "oops\n"


@behaviour
async def run_exit_code(s):
    assert (await raises(CommandExitException, s.commands.run("exit 7"))).exit_code == 7


@behaviour
async def run_timeout(s):
    await raises(TimeoutException, s.commands.run("sleep 30", timeout=1))


@behaviour
async def run_many_at_once(s):
    got = await asyncio.gather(*[s.commands.run("sleep 0.2; echo %d" % i) for i in range(10)])
    assert [r.stdout for r in got] == ["%d\n" % i for i in range(10)]


@behaviour
async def background(s):
    h = await s.commands.run("read x; echo got $x", background=True, stdin=True)
    await s.commands.send_stdin(h.pid, "this\n")
    assert (await h.wait()).stdout == "got this\n"


@behaviour
async def background_callbacks(s):
    out = []
    h = await s.commands.run("echo 1; sleep 0.1; echo 2", background=True, on_stdout=out.append)
    await h.wait()
    assert "".join(out) == "1\n2\n"


@behaviour
async def background_kill(s):
    h = await s.commands.run("sleep 100", background=True)
    assert await h.kill()
    await raises(CommandExitException, h.wait())


@behaviour
async def background_connect(s):
    h = await s.commands.run("sleep 1; echo later", background=True)
    await h.disconnect()
    assert (await (await s.commands.connect(h.pid)).wait()).stdout == "later\n"


@behaviour
async def files(s):
    await s.files.write("f.txt", "text")
    assert await s.files.read("f.txt") == "text" and await s.files.exists("f.txt")
    await s.files.rename("f.txt", "g.txt")
    await s.files.remove("g.txt")
    assert not await s.files.exists("g.txt")


@behaviour
async def files_stream(s):
    data = os.urandom(2 << 20)
    await s.files.write("s.bin", data)
    got = b""
    async for part in await s.files.read("s.bin", format="stream"):
        got += part
    assert got == data


@behaviour
async def files_list(s):
    await s.files.make_dir("d/e")
    assert [e.name for e in await s.files.list("d")] == ["e"]


@behaviour
async def files_missing(s):
    await raises(NotFoundException, s.files.read("nothing"))


@behaviour
async def watch(s):
    await s.files.make_dir("w")
    seen = []
    w = await s.files.watch_dir("w", on_event=seen.append)
    await s.files.write("w/new", "x")
    await until(lambda: [e for e in seen if e.name == "new" and e.type == FilesystemEventType.CREATE])
    await w.stop()


@behaviour
async def pty(s):
    out = []
    h = await s.pty.create(PtySize(cols=90, rows=20), on_data=out.append)
    await s.pty.send_stdin(h.pid, b"stty size; echo $((40+2))\n")
    await until(lambda: b"20 90" in b"".join(out) and b"42" in b"".join(out))
    assert await s.pty.kill(h.pid)


@behaviour
async def info_and_list(s):
    await s.set_timeout(500)
    i = await s.get_info()
    assert i.metadata == {"purpose": "async"}
    assert s.sandbox_id in [x.sandbox_id for x in await AsyncSandbox.list().next_items()]


@behaviour
async def connect(s):
    again = await AsyncSandbox.connect(s.sandbox_id)
    assert (await again.commands.run("echo same")).stdout == "same\n"


@behaviour
async def many_sandboxes(s):
    all = await asyncio.gather(*[AsyncSandbox.create() for _ in range(5)])
    got = await asyncio.gather(*[x.commands.run("echo $RANDOM > r; cat r") for x in all])
    assert all and len(got) == 5
    assert await asyncio.gather(*[x.kill() for x in all]) == [True] * 5


@behaviour
async def pause_and_resume(s):
    other = await AsyncSandbox.create()
    await other.files.write("kept.txt", "kept")
    assert await other.pause(mode="filesystem") and not await other.is_running()
    again = await AsyncSandbox.connect(other.sandbox_id)
    assert await again.files.read("kept.txt") == "kept" and await again.kill()


@behaviour
async def snapshot(s):
    snap = await s.create_snapshot()
    fresh = await AsyncSandbox.create(snap.snapshot_id)
    assert await fresh.kill() and await AsyncSandbox.delete_snapshot(snap.snapshot_id)


@behaviour
async def kill(s):
    other = await AsyncSandbox.create()
    assert await other.kill() and not await other.is_running()


async def main():
    s = await AsyncSandbox.create(timeout=600, metadata={"purpose": "async"})
    failed = 0
    for f in behaviours:
        if len(sys.argv) > 1 and f.__name__ not in sys.argv[1:]:
            continue
        try:
            await f(s)
        except BaseException:
            failed += 1
            print("FAILED", f.__name__)
            traceback.print_exc(limit=-4, file=sys.stdout)
    await s.kill()
    print("%d of %d" % (len(behaviours) - failed, len(behaviours)))
    sys.exit(1 if failed else 0)


asyncio.run(main())
