"""Runs one command in a rented machine, for a host that reaches it by standard streams only.

A message is a line: a letter, and base64. From the host: s the command, i input, c channel, a read so much of a stream,
g the names of given files, b the call begins, t SIGTERM,
k SIGKILL, p still there. To the host: r it runs, o and e output, c channel, a read so much, w g is needed, f a file that was left, d its content, x the end, ! why it did not run. An empty i or c is the end of that stream.
Each stream has a window: its writer waits until the reader has read.
"""
import base64
import errno
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import stat
import sys
import time

PIECE, WINDOW, SILENCE = 48 << 10, 1 << 20, 60.0
MAX_ENTRIES, MAX_CUTS, MAX_DEPTH = 10000, 100, 16


def send(kind, data=b""):
    line = memoryview(kind + base64.b64encode(data) + b"\n")
    while line:
        line = line[os.write(1, line):]


def send_json(kind, value):
    send(kind, json.dumps(value).encode("ascii"))


class Reader:
    """A descriptor of the command that is sent to the host."""

    def __init__(self, relay, kind, fd, limit):
        self.relay, self.kind, self.fd, self.limit = relay, kind, fd, limit
        self.seen, self.credit, self.listed = 0, WINDOW, False
        os.set_blocking(fd, False)
        self.listen()

    def listen(self):
        want = self.fd is not None and self.credit > 0
        if want != self.listed:
            self.listed = want
            self.relay.want(self.fd, selectors.EVENT_READ if want else 0, self.ready)

    def ready(self, _=None):
        try:
            data = os.read(self.fd, PIECE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.credit = 0
            self.listen()
            self.fd = None
            if self.kind == b"c":
                send(b"c")
            return False
        kept = data[:max(0, self.limit - self.seen)]
        self.seen += len(data)
        if self.kind == b"c" and self.seen > self.limit:
            self.relay.killed = self.relay.flooded = True
        if kept:
            self.credit -= len(kept)
            send(self.kind, kept)
        self.listen()
        return True

    def drain(self):
        """Sends what was written before the end, whatever the window is: no more than a pipe holds."""
        end = time.monotonic() + 5
        while self.fd is not None and self.ready() and time.monotonic() < end:
            pass


class Writer:
    """A descriptor of the command that the host writes to."""

    def __init__(self, relay, kind, fd, close):
        self.relay, self.kind, self.fd, self.close = relay, kind, fd, close
        self.left, self.ending, self.listed = bytearray(), False, False
        os.set_blocking(fd, False)

    def put(self, data):
        if not data:
            self.ending = True
        self.left += data
        self.flush()

    def flush(self, _=None):
        n = 0
        try:
            while self.left and self.fd is not None:
                k = os.write(self.fd, self.left[:PIECE])
                del self.left[:k]
                n += k
        except BlockingIOError:
            pass
        except OSError:  # nobody reads it
            self.end()
        if self.fd is None:
            n += len(self.left)
            self.left.clear()
        if n:
            send_json(b"a", [self.kind.decode(), n])
        if self.ending and not self.left:
            self.end()
        want = bool(self.left) and self.fd is not None
        if want != self.listed:
            self.listed = want
            self.relay.want(self.fd, selectors.EVENT_WRITE if want else 0, self.flush)

    def end(self):
        if self.fd is not None:
            if self.listed:
                self.listed = False
                self.relay.want(self.fd, 0, self.flush)
            self.close()
            self.fd = None


class Relay:
    def __init__(self):
        self.selector, self.events = selectors.DefaultSelector(), {}
        self.buffer, self.heard, self.given, self.killed = bytearray(), time.monotonic(), None, False
        self.flooded, self.before = False, 0.0
        self.readers, self.writers, self.pid = {}, {}, 0

    def want(self, fd, event, call):
        """Calls call when fd is ready for event; 0 is never. A socket is read and written."""
        calls = self.events.setdefault(fd, {})
        kind = selectors.EVENT_READ if call.__name__ == "ready" else selectors.EVENT_WRITE
        if event:
            calls[kind] = call
        else:
            calls.pop(kind, None)
        mask = sum(calls)
        try:
            self.selector.unregister(fd)
        except KeyError:
            pass
        if mask:
            self.selector.register(fd, mask, calls)

    def first(self):
        while b"\n" not in self.buffer:
            data = os.read(0, PIECE)
            if not data:
                os._exit(1)
            self.buffer += data
        line, _, rest = bytes(self.buffer).partition(b"\n")
        self.buffer = bytearray(rest)
        return json.loads(base64.b64decode(line[1:]))

    def listen(self):
        data = os.read(0, 1 << 18)
        self.heard = time.monotonic()
        if not data:  # the host has gone
            self.kill_all()
            os._exit(1)
        self.buffer += data
        while True:
            at = self.buffer.find(b"\n")
            if at < 0:
                return
            line = bytes(self.buffer[:at])
            del self.buffer[:at + 1]
            self.message(line[:1], base64.b64decode(line[1:]))

    def message(self, kind, data):
        if kind in (b"i", b"c"):
            if kind in self.writers:
                self.writers[kind].put(data)
            elif data:
                send_json(b"a", [kind.decode(), len(data)])
        elif kind == b"a":
            of, n = json.loads(data)
            reader = self.readers.get(of.encode())
            if reader:
                reader.credit += n
                if reader.fd is not None:
                    reader.listen()
        elif kind == b"g":
            self.given = json.loads(data)
        elif kind == b"t":
            self.signal(signal.SIGTERM)
        elif kind == b"k":
            self.killed = True
        elif kind == b"b":
            self.before = self.used()

    def used(self):
        """The processor time of the command so far, without that of children which it has not waited for."""
        try:
            with open("/proc/%d/stat" % self.pid) as f:
                fields = f.read().rpartition(")")[2].split()
            return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            return 0.0

    def signal(self, number):
        try:
            os.killpg(self.pid, number)
        except OSError:
            pass

    def wait(self, until):
        while not until():
            if time.monotonic() - self.heard > SILENCE:
                self.kill_all()
                os._exit(1)
            for key, mask in self.selector.select(5):
                for kind, call in list(key.data.items()):
                    if mask & kind:
                        call(mask)

    def kill_all(self):
        """Kills every process that the command has left, and reports whether none is alive. Orphans become ours."""
        me, end = os.getpid(), time.monotonic() + 10
        while time.monotonic() < end:
            parents = {}
            for name in os.listdir("/proc"):
                if name.isdigit():
                    try:
                        with open("/proc/%s/stat" % name) as f:
                            fields = f.read().rpartition(")")[2].split()
                        if fields[0] != "Z":
                            parents[int(name)] = int(fields[1])
                    except (OSError, IndexError, ValueError):
                        pass
            ours = set()
            for pid in parents:
                line, at = [], pid
                while at in parents and at != me and at not in line:
                    line.append(at)
                    at = parents[at]
                if at == me:
                    ours.update(line)
            for pid in ours:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            self.reap()
            if not ours:
                return True
            time.sleep(0.002)
        return False

    status = None

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status


def fail(step, e):
    send_json(b"!", {"step": step, "errno": getattr(e, "errno", None) or errno.EIO})
    sys.exit(1)


def prepare(spec):
    """Makes the work directory, and unpacks packages that this machine does not have yet."""
    work = spec["dir"]
    os.makedirs(os.path.join(work, "out"), 0o700)
    os.mkdir(os.path.join(work, ".tmp"), 0o700)
    os.chmod(work, 0o700)
    for f in spec["files"]:
        name = os.path.join(work, f["name"])
        os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
        with open(name, "wb") as out:
            out.write(base64.b64decode(f["data"]))
        os.chmod(name, f["mode"])
    for at in spec["layers"]:
        if not os.path.isdir(at):
            import tarfile
            part = at + ".part"
            shutil.rmtree(part, ignore_errors=True)
            with tarfile.open(at + ".tar.gz") as tar:
                if hasattr(tarfile, "data_filter"):
                    tar.extractall(part, filter="data")
                else:
                    tar.extractall(part)
            os.rename(part, at)
            os.remove(at + ".tar.gz")


def find(program):
    """The command in this machine, which may have an interpreter at another place than the host."""
    if os.access(program, os.X_OK) or os.path.dirname(program) in ("", "/work"):
        return program
    base = os.path.basename(program)
    for name in (base, base.rstrip("0123456789."), "python3" if base.startswith("python") else base):
        for d in ("/usr/local/bin", "/usr/bin", "/bin"):
            if os.access(os.path.join(d, name), os.X_OK):
                return os.path.join(d, name)
    return program


def limit(limits):
    for name, (soft, hard) in limits.items():
        kind = getattr(resource, "RLIMIT_" + name)
        most = resource.getrlimit(kind)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def start(relay, spec):
    null = os.open("/dev/null", os.O_RDONLY)
    stdin = os.pipe() if spec["stdin"] else (null, None)
    out, err, trouble = os.pipe(), os.pipe(), os.pipe()
    ours, theirs = socket.socketpair() if spec["channel"] else (None, None)
    argv = [os.fsencode(a) for a in spec["argv"]]
    program = os.fsencode(find(spec["argv"][0]))
    env = dict(os.fsencode(kv).split(b"=", 1) for kv in spec["env"])
    relay.pid = os.fork()
    if relay.pid == 0:
        step = "exec"
        try:
            os.setsid()
            trouble_fd = trouble[1]
            for fd, to in ((stdin[0], 0), (out[1], 1), (err[1], 2)):
                os.dup2(fd, to)
            channel = theirs.detach() if theirs else None
            while trouble_fd <= 3:
                trouble_fd = os.dup(trouble_fd)
            if channel is not None and channel != 3:
                os.dup2(channel, 3)
            elif channel is not None:
                os.set_inheritable(3, True)
            os.closerange(4 if channel is not None else 3, trouble_fd)
            os.closerange(trouble_fd + 1, 65536)
            os.set_inheritable(trouble_fd, False)
            for s in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGXFSZ):
                signal.signal(s, signal.SIG_DFL)
            os.umask(0o022)
            os.chdir(spec["dir"])
            step = "rlimits"
            limit(spec["limits"])
            step = "exec"
            os.execve(program, argv, env)
        except BaseException as e:
            os.write(trouble_fd, ("%s %d" % (step, getattr(e, "errno", None) or errno.EIO)).encode())
        os._exit(127)
    for fd in (null, stdin[0] if spec["stdin"] else None, out[1], err[1], trouble[1]):
        if fd is not None:
            os.close(fd)
    if theirs:
        theirs.close()
    why = os.read(trouble[0], 100)
    os.close(trouble[0])
    if why:
        step, number = why.decode().split()
        relay.reap()
        fail(step, OSError(int(number), ""))
    send(b"r")
    if spec["stdin"]:
        relay.writers[b"i"] = Writer(relay, b"i", stdin[1], lambda: os.close(stdin[1]))
    if ours:
        def hang_up():
            try:
                ours.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        ours.setblocking(False)
        relay.writers[b"c"] = Writer(relay, b"c", ours.fileno(), hang_up)
        relay.readers[b"c"] = Reader(relay, b"c", ours.fileno(), spec["channel"])
        relay.socket = ours
    relay.readers[b"o"] = Reader(relay, b"o", out[0], spec["stdout"])
    relay.readers[b"e"] = Reader(relay, b"e", err[0], spec["stderr"])


class Collector:
    """Sends the files that the command has left, and says what is left out."""

    def __init__(self, work, given, count, size):
        self.work, self.given, self.count, self.size = work, set(given), count, size
        self.cuts, self.entries, self.names = [], 0, set()

    def cut(self, name, why):
        if len(self.cuts) < MAX_CUTS:
            self.cuts.append([name, why])

    def tree(self, top, at, hidden, depth=0):
        if depth > MAX_DEPTH:
            return self.cut(at, "too deep")
        try:
            names = sorted(os.listdir(os.path.join(top, at)))
        except FileNotFoundError:
            return
        except OSError:
            return self.cut(at, "cannot be listed")
        for n in names:
            name = os.path.join(at, n)
            cache = n.startswith(".") or n in ("__pycache__", "node_modules")
            if not hidden and (cache or name in self.given or name == "out"):
                continue
            self.entries += 1
            if self.entries > MAX_ENTRIES:
                return
            if self.entries == MAX_ENTRIES:
                self.cut(at, "too many entries")
            self.entry(top, name, hidden, depth)

    def entry(self, top, name, hidden, depth):
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            return self.cut(ascii(name), "has a name that cannot be given back")
        try:
            st = os.lstat(os.path.join(top, name))
            if stat.S_ISDIR(st.st_mode):
                return self.tree(top, name, hidden, depth + 1)
            if stat.S_ISLNK(st.st_mode):
                return self.cut(name, "is a link, or cannot be opened")
            if not stat.S_ISREG(st.st_mode):
                return self.cut(name, "is not a regular file")
            if st.st_nlink != 1:
                return self.cut(name, "has more than one name")
            if name in self.names:
                return self.cut(name, "has the name of a file in out")
            if len(self.names) >= self.count:
                return self.cut(name, "is one file too many")
            if st.st_size > self.size:
                return self.cut(name, "is too large")
            with open(os.path.join(top, name), "rb") as f:
                data = f.read(self.size + 1)
        except OSError:
            return self.cut(name, "cannot be opened")
        if len(data) > self.size:
            return self.cut(name, "is too large, or cannot be read")
        self.size -= len(data)
        self.names.add(name)
        send_json(b"f", name)
        for i in range(0, len(data), PIECE):
            send(b"d", data[i:i + PIECE])


def unlock(path):
    for top, dirs, _ in os.walk(path):
        for d in dirs:
            if not os.path.islink(os.path.join(top, d)):
                os.chmod(os.path.join(top, d), 0o700)


def main():
    os.umask(0o077)
    try:
        import ctypes
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    relay = Relay()
    signal.alarm(int(SILENCE))  # a host that is gone sends no command
    spec = relay.first()
    signal.alarm(0)
    try:
        prepare(spec)
    except OSError as e:
        fail("files", e)
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    start(relay, spec)

    def ready(_=None):
        try:
            os.read(wake, 4096)
        except BlockingIOError:
            pass
        relay.reap()

    def hear(_=None):
        relay.listen()

    relay.selector.register(wake, selectors.EVENT_READ, {selectors.EVENT_READ: ready})
    relay.selector.register(0, selectors.EVENT_READ, {selectors.EVENT_READ: hear})
    if relay.buffer:  # what came with the command
        held, relay.buffer = bytes(relay.buffer), bytearray()
        for line in held.split(b"\n")[:-1]:
            relay.message(line[:1], base64.b64decode(line[1:]))
        relay.buffer = bytearray(held.rpartition(b"\n")[2])
    relay.reap()
    relay.wait(lambda: relay.status is not None or relay.killed)
    clean = relay.kill_all()
    for reader in relay.readers.values():
        reader.drain()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    end = {"clean": clean, "cuts": [], "status": relay.status if relay.status is not None else 9,
           "cpu": max(0.001, used.ru_utime + used.ru_stime - relay.before), "flooded": relay.flooded, "memory": used.ru_maxrss << 10,
           "stdout": relay.readers[b"o"].seen, "stderr": relay.readers[b"e"].seen}
    if spec["collect"]:
        if relay.given is None:
            send(b"w")
            relay.wait(lambda: relay.given is not None)
        c = Collector(spec["dir"], relay.given, spec["artifacts"], spec["artifact_bytes"])
        out = os.path.join(spec["dir"], "out")
        if os.path.islink(out) or os.path.isfile(out):
            c.cut("out", "is not a directory")
        else:
            c.tree(out, "", True)
        c.tree(spec["dir"], "", False)
        end["cuts"] = c.cuts
    unlock(spec["dir"])
    shutil.rmtree(spec["dir"], ignore_errors=True)
    end["clean"] = end["clean"] and not os.path.exists(spec["dir"])
    send_json(b"x", end)


main()
