"""What E2B's own client for Python does, synchronously, against Haft. Each function is one behaviour."""
import io, os, sys, threading, time, traceback, urllib.request, urllib.error

from e2b import (Sandbox, CommandExitException, NotFoundException, TimeoutException, AuthenticationException,
                 InvalidArgumentException, SandboxException, FileType, FilesystemEventType, PtySize, SandboxQuery,
                 SandboxState)
from e2b.sandbox.filesystem.filesystem import WriteEntry

behaviours = []


def behaviour(f):
    behaviours.append(f)
    return f


def raises(kind, f, *args, **named):
    try:
        f(*args, **named)
    except kind as e:
        return e
    raise AssertionError("no %s" % kind.__name__)


def until(what, seconds=20):
    """Waits for something that another process does."""
    end = time.time() + seconds
    while time.time() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it does not happen")


@behaviour
def create_has_id(s):
    assert s.sandbox_id.isalnum() and len(s.sandbox_id) > 15


@behaviour
def is_running(s):
    assert s.is_running()


@behaviour
def run_stdout(s):
    r = s.commands.run("echo hello")
    assert r.stdout == "hello\n" and r.exit_code == 0 and r.stderr == "" and r.error is None


@behaviour
def run_stderr(s):
    assert s.commands.run("echo oops >&2").stderr == "oops\n"


@behaviour
def run_exit_code(s):
    e = raises(CommandExitException, s.commands.run, "echo a; exit 3")
    assert e.exit_code == 3 and e.stdout == "a\n" and "exit status 3" in (e.error or "")


@behaviour
def run_callbacks(s):
    out, err = [], []
    s.commands.run("echo 1; sleep 0.1; echo 2; echo 3 >&2", on_stdout=out.append, on_stderr=err.append)
    assert "".join(out) == "1\n2\n" and "".join(err) == "3\n"


@behaviour
def run_unicode(s):
    assert s.commands.run("printf 'grüße 世界 🎉'").stdout == "grüße 世界 🎉"


@behaviour
def run_large_output(s):
    assert len(s.commands.run("head -c 3000000 /dev/zero | tr '\\0' x").stdout) == 3000000


@behaviour
def run_envs(s):
    assert s.commands.run("echo $A-$B", envs={"A": "1", "B": "x y"}).stdout == "1-x y\n"


@behaviour
def run_sandbox_envs(s):
    assert s.commands.run("echo $FROM_CREATE").stdout == "yes\n"


@behaviour
def run_envs_override(s):
    assert s.commands.run("echo $FROM_CREATE", envs={"FROM_CREATE": "no"}).stdout == "no\n"


@behaviour
def run_cwd(s):
    s.files.make_dir("dir-for-cwd")
    assert s.commands.run("pwd", cwd="/home/user/dir-for-cwd").stdout == "/home/user/dir-for-cwd\n"


@behaviour
def run_default_cwd_is_home(s):
    assert s.commands.run("pwd; echo $HOME; echo ~").stdout == "/home/user\n" * 3


@behaviour
def run_missing_cwd(s):
    raises(InvalidArgumentException, s.commands.run, "true", cwd="/nowhere")


@behaviour
def run_timeout(s):
    raises(TimeoutException, s.commands.run, "sleep 30", timeout=1)


@behaviour
def run_no_stdin(s):
    assert s.commands.run("cat; echo end").stdout == "end\n"


@behaviour
def run_user_root(s):
    assert s.commands.run("echo hi", user="root").stdout == "hi\n"


@behaviour
def run_user_unknown(s):
    raises(AuthenticationException, s.commands.run, "echo hi", user="nobody-here")


@behaviour
def background_wait(s):
    h = s.commands.run("sleep 0.2; echo done", background=True)
    assert h.pid > 0
    assert h.wait().stdout == "done\n"


@behaviour
def background_iterate(s):
    h = s.commands.run("echo 1; sleep 0.1; echo 2", background=True)
    assert "".join(out or "" for out, err, pty in h) == "1\n2\n"


@behaviour
def background_kill(s):
    h = s.commands.run("sleep 100", background=True)
    assert h.kill() is True
    e = raises(CommandExitException, h.wait)
    assert e.exit_code != 0


@behaviour
def background_kill_twice(s):
    h = s.commands.run("sleep 100", background=True)
    assert h.kill()
    raises(CommandExitException, h.wait)
    assert until(lambda: s.commands.kill(h.pid) is False)


@behaviour
def background_list(s):
    h = s.commands.run("sleep 100", background=True, envs={"K": "v"})
    p = [p for p in s.commands.list() if p.pid == h.pid][0]
    assert p.cmd.endswith("bash") and p.args[-1] == "sleep 100" and p.envs["K"] == "v"
    h.kill()
    until(lambda: h.pid not in [p.pid for p in s.commands.list()])


@behaviour
def background_stdin(s):
    h = s.commands.run("read a; read b; echo got $a $b", background=True, stdin=True)
    s.commands.send_stdin(h.pid, "one\n")
    h.send_stdin("two\n")
    assert h.wait().stdout == "got one two\n"


@behaviour
def background_close_stdin(s):
    h = s.commands.run("cat; echo eof", background=True, stdin=True)
    s.commands.send_stdin(h.pid, "text\n")
    s.commands.close_stdin(h.pid)
    assert h.wait().stdout == "text\neof\n"


@behaviour
def background_large_stdin(s):
    h = s.commands.run("wc -c", background=True, stdin=True)
    s.commands.send_stdin(h.pid, "x" * 200000)
    s.commands.close_stdin(h.pid)
    assert h.wait().stdout.strip() == "200000"


@behaviour
def background_stream_input(s):
    h = s.commands.run("cat", background=True, stdin=True)
    s.commands.stream_input(h.pid, ["a", b"b", "c\n"])
    s.commands.close_stdin(h.pid)
    assert h.wait().stdout == "abc\n"


@behaviour
def stdin_to_unknown_pid(s):
    raises(NotFoundException, s.commands.send_stdin, 999999, "x")


@behaviour
def background_connect(s):
    h = s.commands.run("sleep 1; echo later", background=True)
    h.disconnect()
    assert s.commands.connect(h.pid).wait().stdout == "later\n"


@behaviour
def connect_after_exit(s):
    h = s.commands.run("exit 4", background=True)
    raises(CommandExitException, h.wait)
    e = raises(CommandExitException, s.commands.connect(h.pid).wait)
    assert e.exit_code == 4


@behaviour
def connect_unknown(s):
    raises(NotFoundException, s.commands.connect, 999999)


@behaviour
def kill_unknown(s):
    assert s.commands.kill(999999) is False


@behaviour
def many_background(s):
    hs = [s.commands.run("sleep 0.5; echo %d" % i, background=True) for i in range(8)]
    assert [h.wait().stdout for h in hs] == ["%d\n" % i for i in range(8)]


@behaviour
def files_write_read(s):
    info = s.files.write("a.txt", "content")
    assert info.path == "/home/user/a.txt" and info.name == "a.txt"
    assert s.files.read("a.txt") == "content"


@behaviour
def files_absolute(s):
    s.files.write("/tmp/abs.txt", "x")
    assert s.files.read("/tmp/abs.txt") == "x" and s.commands.run("cat /tmp/abs.txt").stdout == "x"


@behaviour
def files_home_is_that_of_commands(s):
    s.files.write("/home/user/h.txt", "home")
    assert s.commands.run("cat /home/user/h.txt ~/h.txt h.txt").stdout == "home" * 3


@behaviour
def files_overwrite(s):
    s.files.write("o.txt", "long content")
    s.files.write("o.txt", "short")
    assert s.files.read("o.txt") == "short"


@behaviour
def files_empty(s):
    s.files.write("empty.txt", "")
    assert s.files.read("empty.txt") == ""


@behaviour
def files_bytes(s):
    data = bytes(range(256)) * 10
    s.files.write("b.bin", data)
    assert bytes(s.files.read("b.bin", format="bytes")) == data


@behaviour
def files_stream(s):
    data = os.urandom(3 << 20)
    s.files.write("s.bin", io.BytesIO(data))
    assert b"".join(s.files.read("s.bin", format="stream")) == data


@behaviour
def files_octet_stream(s):
    s.files.write("octet.bin", b"\x00\x01\xff" * 1000, use_octet_stream=True)
    assert bytes(s.files.read("octet.bin", format="bytes")) == b"\x00\x01\xff" * 1000


@behaviour
def files_gzip(s):
    s.files.write("g.txt", "gzip " * 1000, gzip=True, use_octet_stream=True)
    assert s.files.read("g.txt", gzip=True) == "gzip " * 1000


@behaviour
def files_parents(s):
    s.files.write("deep/er/still/f.txt", "x")
    assert s.files.read("deep/er/still/f.txt") == "x"


@behaviour
def files_write_many(s):
    infos = s.files.write_files([WriteEntry(path="m/1.txt", data="1"), WriteEntry(path="/tmp/m2.txt", data="2")])
    assert [i.path for i in infos] == ["/home/user/m/1.txt", "/tmp/m2.txt"]
    assert s.files.read("m/1.txt") == "1" and s.files.read("/tmp/m2.txt") == "2"


@behaviour
def files_unusual_names(s):
    for name in ["with space.txt", "ünï.txt", "quote'\".txt", "percent%20.txt", "a&b=c?.txt"]:
        s.files.write("names/" + name, name)
        assert s.files.read("names/" + name) == name, name


@behaviour
def files_missing(s):
    raises(NotFoundException, s.files.read, "no-such-file")


@behaviour
def files_read_directory(s):
    s.files.make_dir("adir")
    raises(InvalidArgumentException, s.files.read, "adir")


@behaviour
def files_denied(s):
    raises(SandboxException, s.files.write, "/usr/x", "x")


@behaviour
def files_exists(s):
    s.files.write("there", "")
    assert s.files.exists("there") is True and s.files.exists("not-there") is False


@behaviour
def files_list(s):
    s.files.write("l/a", "1")
    s.files.make_dir("l/d")
    found = {e.name: e for e in s.files.list("l")}
    assert found["a"].type == FileType.FILE and found["d"].type == FileType.DIR
    assert found["a"].path == "/home/user/l/a" and found["a"].size == 1


@behaviour
def files_list_depth(s):
    s.files.write("t/1/2/3", "")
    assert sorted(e.path for e in s.files.list("t", depth=2)) == ["/home/user/t/1", "/home/user/t/1/2"]


@behaviour
def files_list_missing(s):
    raises(NotFoundException, s.files.list, "nowhere")


@behaviour
def files_list_of_file(s):
    s.files.write("plain", "")
    raises(InvalidArgumentException, s.files.list, "plain")


@behaviour
def files_info(s):
    s.files.write("info.txt", "12345")
    e = s.files.get_info("info.txt")
    assert e.size == 5 and e.type == FileType.FILE and e.permissions == "-rw-r--r--" and e.mode == 0o644
    assert abs(e.modified_time.timestamp() - time.time()) < 600


@behaviour
def files_info_symlink(s):
    s.commands.run("ln -sf /tmp/target-of-link link")
    assert s.files.get_info("link").symlink_target == "/tmp/target-of-link"


@behaviour
def files_make_dir(s):
    assert s.files.make_dir("new/sub") is True and s.files.make_dir("new/sub") is False


@behaviour
def files_rename(s):
    s.files.write("old", "x")
    e = s.files.rename("old", "renamed")
    assert e.path == "/home/user/renamed" and not s.files.exists("old") and s.files.read("renamed") == "x"


@behaviour
def files_rename_missing(s):
    raises(NotFoundException, s.files.rename, "nothing", "x")


@behaviour
def files_remove(s):
    s.files.write("rm/a/b", "")
    s.files.remove("rm")
    assert not s.files.exists("rm")


@behaviour
def files_of_commands(s):
    s.commands.run("mkdir -p made && echo text > made/f")
    assert s.files.read("made/f") == "text\n"


@behaviour
def watch_create(s):
    s.files.make_dir("w1")
    w = s.files.watch_dir("w1")
    s.files.write("w1/new", "x")
    seen = []
    until(lambda: seen.extend(w.get_new_events()) or [e for e in seen if e.name == "new"])
    assert seen[0].type in (FilesystemEventType.CREATE, FilesystemEventType.WRITE)
    w.stop()


@behaviour
def watch_write_and_remove(s):
    s.files.write("w2/f", "x")
    w = s.files.watch_dir("w2")
    s.files.write("w2/f", "longer")
    seen = []
    until(lambda: seen.extend(w.get_new_events()) or [e for e in seen if e.type == FilesystemEventType.WRITE])
    s.files.remove("w2/f")
    until(lambda: seen.extend(w.get_new_events()) or [e for e in seen if e.type == FilesystemEventType.REMOVE])
    w.stop()


@behaviour
def watch_recursive(s):
    s.files.make_dir("w3/sub")
    w = s.files.watch_dir("w3", recursive=True)
    s.files.write("w3/sub/deep", "x")
    seen = []
    until(lambda: seen.extend(w.get_new_events()) or [e for e in seen if e.name == "sub/deep"])
    w.stop()


@behaviour
def watch_not_recursive(s):
    s.files.make_dir("w4/sub")
    w = s.files.watch_dir("w4")
    s.files.write("w4/sub/deep", "x")
    s.files.write("w4/flat", "x")
    seen = []
    until(lambda: seen.extend(w.get_new_events()) or [e for e in seen if e.name == "flat"])
    assert not [e for e in seen if "deep" in e.name]
    w.stop()


@behaviour
def watch_missing(s):
    raises(NotFoundException, s.files.watch_dir, "no-such-dir")


@behaviour
def watch_stopped(s):
    s.files.make_dir("w5")
    w = s.files.watch_dir("w5")
    w.stop()
    raises(SandboxException, w.get_new_events)


@behaviour
def pty_echo(s):
    h = s.pty.create(PtySize(cols=80, rows=24))
    out = []
    t = threading.Thread(target=lambda: swallow(lambda: h.wait(on_pty=lambda b: out.append(b))))
    t.start()
    s.pty.send_stdin(h.pid, b"echo $((40+2))\nexit\n")
    t.join(30)
    assert b"42" in b"".join(out)


@behaviour
def pty_size_and_resize(s):
    h = s.pty.create(PtySize(cols=100, rows=30))
    out = []
    t = threading.Thread(target=lambda: swallow(lambda: h.wait(on_pty=lambda b: out.append(b))))
    t.start()
    s.pty.send_stdin(h.pid, b"stty size\n")
    until(lambda: b"30 100" in b"".join(out))
    s.pty.resize(h.pid, PtySize(cols=120, rows=40))
    s.pty.send_stdin(h.pid, b"stty size\n")
    until(lambda: b"40 120" in b"".join(out))
    assert s.pty.kill(h.pid) is True
    t.join(30)


def swallow(f):
    try:
        f()
    except CommandExitException:
        pass


@behaviour
def url_download(s):
    s.files.write("signed.txt", "signed")
    with urllib.request.urlopen(s.download_url("signed.txt", use_signature_expiration=60)) as r:
        assert r.read() == b"signed"


@behaviour
def url_download_without_expiry(s):
    s.files.write("signed.txt", "signed")
    with urllib.request.urlopen(s.download_url("signed.txt")) as r:
        assert r.read() == b"signed"


@behaviour
def url_expired(s):
    e = raises(urllib.error.HTTPError, urllib.request.urlopen, s.download_url("signed.txt", use_signature_expiration=-5))
    assert e.code in (401, 502)


@behaviour
def url_of_another_path(s):
    s.files.write("secret.txt", "secret")
    url = s.download_url("signed.txt", use_signature_expiration=60).replace("signed.txt", "secret.txt")
    e = raises(urllib.error.HTTPError, urllib.request.urlopen, url)
    assert e.code in (401, 502)


@behaviour
def url_upload(s):
    body = (b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"up.txt\"\r\n\r\nuploaded\r\n--b--\r\n")
    req = urllib.request.Request(s.upload_url("up.txt", use_signature_expiration=60), data=body, method="POST",
                                 headers={"Content-Type": "multipart/form-data; boundary=b"})
    with urllib.request.urlopen(req) as r:
        assert r.status == 200
    assert s.files.read("up.txt") == "uploaded"


@behaviour
def info(s):
    i = s.get_info()
    assert i.sandbox_id == s.sandbox_id and i.template_id == "base" and i.metadata == {"purpose": "test"}
    assert i.state == SandboxState.RUNNING and i.end_at > i.started_at and i.cpu_count > 0 and i.memory_mb > 0


@behaviour
def set_timeout(s):
    s.set_timeout(1000)
    i = s.get_info()
    assert 900 < i.end_at.timestamp() - time.time() < 1100
    s.set_timeout(600)
    assert 500 < s.get_info().end_at.timestamp() - time.time() < 700


@behaviour
def listed(s):
    assert s.sandbox_id in [i.sandbox_id for i in Sandbox.list().next_items()]


@behaviour
def listed_by_metadata(s):
    def ids(m):
        return [i.sandbox_id for i in Sandbox.list(query=SandboxQuery(metadata=m)).next_items()]
    assert s.sandbox_id in ids({"purpose": "test"}) and s.sandbox_id not in ids({"purpose": "other"})


@behaviour
def listed_by_state(s):
    paused = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
    running = Sandbox.list(query=SandboxQuery(state=[SandboxState.RUNNING])).next_items()
    assert s.sandbox_id not in [i.sandbox_id for i in paused] and s.sandbox_id in [i.sandbox_id for i in running]


@behaviour
def list_pages(s):
    other = Sandbox.create()
    try:
        pages, seen = Sandbox.list(limit=1), []
        while pages.has_next:
            seen += [i.sandbox_id for i in pages.next_items()]
        assert s.sandbox_id in seen and other.sandbox_id in seen and len(seen) == len(set(seen))
    finally:
        other.kill()


@behaviour
def connect(s):
    s.files.write("of-first", "x")
    again = Sandbox.connect(s.sandbox_id)
    assert again.sandbox_id == s.sandbox_id and again.files.read("of-first") == "x"


@behaviour
def connect_missing(s):
    raises(NotFoundException, Sandbox.connect, "i0000000000000000000")


@behaviour
def metrics(s):
    m = s.get_metrics()
    assert len(m) == 1 and m[0].mem_total > 0 and m[0].mem_used > 0 and m[0].cpu_count > 0


@behaviour
def host_of_port(s):
    assert s.get_host(3000).startswith("3000-" + s.sandbox_id)


@behaviour
def port_by_header(s):
    s.commands.run("""python3 - <<'E' >/dev/null 2>&1 &
import http.server, os, socketserver
os.makedirs('/work/.ports', exist_ok=True)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'from port ' + self.path.encode())
    def address_string(self): return 'x'
    def log_message(self, *a): pass
class S(socketserver.ThreadingUnixStreamServer): pass
S('/work/.ports/3000', H).serve_forever()
E
for i in $(seq 100); do [ -S /work/.ports/3000 ] && exit; sleep 0.1; done; exit 1""")
    def get(headers):
        req = urllib.request.Request(os.environ["E2B_SANDBOX_URL"] + "/page", headers={
            "E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": "3000", **headers})
        with urllib.request.urlopen(req) as r:
            return r.read()
    assert get({"E2B-Traffic-Access-Token": s.traffic_access_token}) == b"from port /page"
    assert raises(urllib.error.HTTPError, get, {}).code == 401


@behaviour
def two_are_apart(s):
    other = Sandbox.create()
    try:
        other.files.write("mine", "x")
        assert not s.files.exists("mine")
    finally:
        other.kill()


@behaviour
def kill(s):
    other = Sandbox.create()
    assert other.kill() is True and other.is_running() is False
    assert Sandbox.kill(other.sandbox_id) is False


@behaviour
def after_kill(s):
    other = Sandbox.create()
    other.kill()
    raises((SandboxException, TimeoutException), other.commands.run, "true")
    raises((SandboxException, TimeoutException), other.files.read, "x")
    raises(NotFoundException, other.set_timeout, 10)


@behaviour
def ends_at_its_timeout(s):
    other = Sandbox.create(timeout=1)
    until(lambda: not other.is_running())
    assert other.sandbox_id not in [i.sandbox_id for i in Sandbox.list().next_items()]


@behaviour
def context_manager(s):
    with Sandbox.create() as other:
        assert other.is_running()
    assert not other.is_running()


@behaviour
def wrong_key(s):
    raises(AuthenticationException, Sandbox.create, api_key="e2b_" + "0" * 40)


@behaviour
def key_in_the_shape_of_e2b(s):
    other = Sandbox.create(api_key="e2b_" + os.environ["E2B_API_KEY"].encode().hex())
    assert other.commands.run("echo x").stdout == "x\n"
    other.kill(api_key=os.environ["E2B_API_KEY"])


@behaviour
def unknown_template(s):
    raises(SandboxException, Sandbox.create, "no-such-template")


@behaviour
def pause_and_resume(s):
    other = Sandbox.create(metadata={"k": "paused"}, envs={"KEPT": "yes"})
    other.files.write("dir/kept.txt", "kept")
    other.commands.run("chmod 750 dir/kept.txt; ln -s kept.txt dir/link; ln dir/kept.txt dir/hard; mkfifo dir/pipe")
    other.commands.run("sleep 1000", background=True)
    assert other.pause(mode="filesystem") is True
    assert not other.is_running() and Sandbox.get_info(other.sandbox_id).state == SandboxState.PAUSED
    assert other.pause() is False
    query = SandboxQuery(state=[SandboxState.PAUSED], metadata={"k": "paused"})
    assert [i.sandbox_id for i in Sandbox.list(query=query).next_items()] == [other.sandbox_id]
    again = Sandbox.connect(other.sandbox_id)
    assert again.sandbox_id == other.sandbox_id and again.is_running()
    r = again.commands.run("cat dir/link; stat -c %a dir/kept.txt; echo $KEPT; [ dir/kept.txt -ef dir/hard ] && ls dir")
    assert r.stdout == "kept750\nyes\nhard\nkept.txt\nlink\n", r.stdout
    assert again.get_info().metadata == {"k": "paused"}
    assert not [p for p in again.commands.list() if "sleep" in str(p.args)]  # processes are not kept
    assert Sandbox.list(query=query).next_items() == [] and again.kill()


@behaviour
def pause_and_kill(s):
    other = Sandbox.create()
    other.pause()
    assert other.kill() is True and other.kill() is False
    raises(NotFoundException, Sandbox.connect, other.sandbox_id)


@behaviour
def pause_with_memory_is_refused(s):
    raises(SandboxException, s.pause, mode="full")
    assert s.is_running()


@behaviour
def snapshot(s):
    other = Sandbox.create(envs={"A": "1", "B": "1"})
    other.files.write("state.json", "{}")
    snap = other.create_snapshot()
    named = other.create_snapshot("my-snapshot")
    assert other.is_running() and named.names == ["my-snapshot"]
    other.kill()
    assert {snap.snapshot_id, named.snapshot_id} <= {i.snapshot_id for i in Sandbox.list_snapshots().next_items()}
    for image in (snap.snapshot_id, "my-snapshot"):
        fresh = Sandbox.create(image, envs={"B": "2"})
        assert fresh.sandbox_id != other.sandbox_id and fresh.files.read("state.json") == "{}"
        assert fresh.commands.run("echo $A $B").stdout == "2\n"  # variables are not a part of a snapshot
        fresh.kill()
    raises(SandboxException, s.create_snapshot, "my-snapshot")
    for image in (snap.snapshot_id, "my-snapshot"):
        assert Sandbox.delete_snapshot(image) is True and Sandbox.delete_snapshot(image) is False
    raises(SandboxException, Sandbox.create, "my-snapshot")


@behaviour
def snapshot_with_a_bad_name(s):
    for name in ("../up", "a/b", "UP", "base", "x" * 80):
        raises(SandboxException, s.create_snapshot, name)


def main():
    s = Sandbox.create(timeout=600, metadata={"purpose": "test"}, envs={"FROM_CREATE": "yes"})
    failed = 0
    for f in behaviours:
        if len(sys.argv) > 1 and f.__name__ not in sys.argv[1:]:
            continue
        try:
            f(s)
        except BaseException:
            failed += 1
            print("FAILED", f.__name__)
            traceback.print_exc(limit=-4, file=sys.stdout)
    s.kill()
    print("%d of %d" % (len(behaviours) - failed, len(behaviours)))
    sys.exit(1 if failed else 0)


main()
