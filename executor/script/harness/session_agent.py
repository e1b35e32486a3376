"""Serves one session: commands, code contexts, files and connections, for the host.

Messages have the frames of the channel. One that starts with "{" is JSON; one that starts with
NUL is data: NUL, the id of the request in 4 bytes, the stream in 1 byte, bytes. Each direction
of a request has a window: who reads says how much it has read, and who writes waits for that.
"""
import errno
import json
import os
import selectors
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

_WINDOW = 1 << 20
_PIECE = 1 << 16
_MAX_FRAME = 2 << 20
_MAX_ENTRIES = 10000
_MAX_LIST = 400 << 10  # bytes of JSON
_STDIN, _STDOUT, _STDERR = 0, 1, 2


class _Refused(Exception):
    def __init__(self, code, message):
        self.code, self.message = code, message


def _refuse(e, path):
    """What a failed operation on a file is for the caller."""
    codes = {errno.ENOENT: "not_found", errno.EEXIST: "conflict", errno.ENOSPC: "limit", errno.EDQUOT: "limit",
             errno.EACCES: "denied", errno.EPERM: "denied", errno.EROFS: "denied"}
    return _Refused(codes.get(e.errno, "invalid"), "%s: %s" % (path, os.strerror(e.errno or errno.EIO)))


class _Source:
    """A descriptor that is read into data messages, within the window of its request."""

    def __init__(self, agent, owner, fd, stream):
        self.agent, self.owner, self.fd, self.stream, self.listed = agent, owner, fd, stream, False
        os.set_blocking(fd, False)
        self.listen()

    def listen(self):
        want = self.fd is not None and self.owner.credit > 0
        if want != self.listed:
            self.listed = want
            if want:
                self.agent.selector.register(self.fd, selectors.EVENT_READ, self.ready)
            else:
                self.agent.selector.unregister(self.fd)

    def ready(self, _):
        try:
            self.read()
        except Exception:  # of what was read: nothing more is read then
            self.close()

    def read(self):
        """Reads a piece, and reports whether there was one."""
        if self.fd is None:
            return False
        try:
            data = os.read(self.fd, _PIECE)
        except BlockingIOError:
            return False
        except OSError:  # such as the end of a terminal
            data = b""
        if not data:
            self.close()
            self.owner.ended(self)
            return False
        self.owner.output(self, data)
        self.listen()
        return True

    def drain(self, most=1 << 20):
        """Reads what is there already."""
        while most > 0 and self.read():
            most -= _PIECE

    def close(self):
        if self.fd is None:
            return
        if self.listed:
            self.agent.selector.unregister(self.fd)
            self.listed = False
        os.close(self.fd)
        self.fd = None


class _Sink:
    """A descriptor that data messages are written to, without waiting."""

    def __init__(self, agent, id, fd):
        self.agent, self.id, self.fd = agent, id, fd
        self.pending, self.closing, self.listed = bytearray(), False, False
        os.set_blocking(fd, False)

    def write(self, data):
        if self.fd is None:
            self.agent.read_by(self.id, len(data))
            return
        self.pending += data
        self.flush(None)

    def flush(self, _):
        n = 0
        try:
            while self.pending and self.fd is not None:
                k = os.write(self.fd, memoryview(self.pending)[:_PIECE].tobytes())
                del self.pending[:k]
                n += k
        except BlockingIOError:
            pass
        except OSError:  # nobody reads it any more
            n += len(self.pending)
            self.close()
        if n:
            self.agent.read_by(self.id, n)
        if not self.pending and self.closing:
            self.close()
        self.listen(bool(self.pending) and self.fd is not None)

    def listen(self, want):
        if want != self.listed:
            self.listed = want
            if want:
                self.agent.selector.register(self.fd, selectors.EVENT_WRITE, self.flush)
            else:
                self.agent.selector.unregister(self.fd)

    def end(self):
        self.closing = True
        self.flush(None)

    def close(self):
        if self.fd is None:
            return
        self.listen(False)
        fd, self.fd = self.fd, None
        self.pending.clear()
        os.close(fd)


class _Request:
    """Something that lasts longer than one message."""

    def __init__(self, agent, id):
        self.agent, self.id, self.credit, self.sources, self.sink = agent, id, _WINDOW, [], None
        agent.requests[id] = self

    def output(self, source, data):
        self.credit -= len(data)
        self.agent.data(self.id, source.stream, data)

    def ended(self, source):
        pass

    def read_by_host(self, n):
        self.credit += n
        for s in self.sources:
            s.listen()

    def input(self, data):
        if self.sink is None:
            self.agent.read_by(self.id, len(data))
        else:
            self.sink.write(data)

    def end_input(self):
        if self.sink is not None:
            self.sink.end()

    def signal(self, number):
        pass

    def finish(self, **event):
        for s in self.sources:
            s.close()
        if self.sink is not None:
            self.sink.close()
        self.agent.requests.pop(self.id, None)
        self.agent.say(id=self.id, **event)


class _Process(_Request):
    """A command."""

    def __init__(self, agent, id, m):
        env, began = dict(os.environ, **(m.get("env") or {})), _ticks()
        cwd, pty = m.get("cwd") or "/work", m.get("pty")
        options = dict(cwd=cwd, env=env, start_new_session=True, close_fds=True)
        self.terminal = child = None
        try:
            if pty:
                try:
                    self.terminal, child = os.openpty()
                except OSError:
                    raise _Refused("denied", "the session has no terminals: leave tty out, or make a session with tty")
                _resize(self.terminal, pty)
                self.child = subprocess.Popen(m["argv"], stdin=child, stdout=child, stderr=child,
                                              preexec_fn=_take_terminal, **options)
            else:
                self.child = subprocess.Popen(
                    m["argv"], stdin=subprocess.PIPE if m.get("stdin") else subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, **options)
        except OSError as e:
            raise _refuse(e, cwd if not os.path.isdir(cwd) else str(m["argv"][0]))
        except (ValueError, subprocess.SubprocessError) as e:
            raise _Refused("invalid", "the command cannot be started: %s" % e)
        finally:
            if child is not None:
                os.close(child)
                if not hasattr(self, "child"):
                    os.close(self.terminal)
        super().__init__(agent, id)
        if pty:
            self.sources = [_Source(agent, self, self.terminal, _STDOUT)]
            self.sink = _Sink(agent, id, os.dup(self.terminal))
        else:
            self.sources = [_Source(agent, self, _own(self.child.stdout), _STDOUT),
                            _Source(agent, self, _own(self.child.stderr), _STDERR)]
            if self.child.stdin:
                self.sink = _Sink(agent, id, _own(self.child.stdin))
        self.sweep, self.began, self.mark = False, began, _mark(m)
        agent.processes[self.child.pid] = self
        agent.say(id=id, event="started", pid=self.child.pid)

    def check(self):
        """Ends the request if the command has ended. What a descendant still prints is dropped."""
        code = self.child.poll()
        if code is None:
            return
        for s in self.sources:
            s.drain()
        del self.agent.processes[self.child.pid]
        if self.sweep:
            _sweep(self.agent, self.child.pid, self)
        self.finish(event="exited", code=code)

    def signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass


class _Context(_Request):
    """An interpreter that keeps what code leaves in it. It runs one code at a time, whose id its
    output has."""

    def __init__(self, agent, id, m):
        self.language, self.current, self.left = m["language"], None, bytearray()
        mine, theirs = socket.socketpair()
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        cwd = m.get("cwd") or "/work"
        try:
            if self.language == "python":
                self.pid = _fork_kernel(theirs.fileno(), out_w, err_w, cwd)
                self.child = None
            else:
                argv = agent.config["kernels"].get(self.language)
                if not argv:
                    raise _Refused("invalid", "%s is not installed on this machine" % self.language)
                os.set_inheritable(theirs.fileno(), True)
                self.child = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=out_w, stderr=err_w, cwd=cwd, start_new_session=True,
                    env=dict(os.environ, HAFT_KERNEL_FD=str(theirs.fileno())), pass_fds=[theirs.fileno()])
                self.pid = self.child.pid
        except OSError as e:
            raise _refuse(e, cwd)
        finally:
            theirs.close()
            os.close(out_w)
            os.close(err_w)
        super().__init__(agent, id)
        self.control = mine
        self.sources = [_Source(agent, self, out_r, _STDOUT), _Source(agent, self, err_r, _STDERR),
                        _Source(agent, self, mine.detach(), 3)]
        self.sink = _Sink(agent, None, os.dup(self.sources[2].fd))
        agent.processes[self.pid] = self
        agent.say(id=id, event="started", pid=self.pid)

    def output(self, source, data):
        if source.stream != 3:
            if self.current is not None:
                self.current.credit -= len(data)
                self.credit = self.current.credit
                self.agent.data(self.current.id, source.stream, data)
            return
        self.left += data
        while True:
            at = self.left.find(b"\0")
            if at < 0:
                if len(self.left) > 16 * _MAX_FRAME:
                    self.signal(signal.SIGKILL)
                return
            text = self.left[:at].decode("utf-8", "replace")
            del self.left[:at + 1]
            self.answer(text)

    def answer(self, text):
        if self.current is None:
            return
        if self.language == "bash":
            text = '{"done":true,"status":%d}' % int(text) if text.isdigit() else "{}"
        last = text.startswith('{"done":')
        if last:
            for s in self.sources[:2]:
                s.drain()
        run, self.current = self.current, None if last else self.current
        if last:
            self.agent.requests.pop(run.id, None)
            if run.sweep:
                _sweep(self.agent, self.pid, run)
        for piece in range(0, len(text), _MAX_FRAME // 8):
            self.agent.data(run.id, 3, text[piece:piece + _MAX_FRAME // 8].encode("utf-8"))
        self.agent.data(run.id, 3, b"\0")
        if last:
            self.agent.say(id=run.id, event="ran")

    def run(self, id, text, mark):
        if self.current is not None:
            raise _Refused("conflict", "the context runs other code")
        self.current = _Run(self, id, mark)
        self.credit = _WINDOW
        self.sink.write(text.encode("utf-8") + b"\0")  # if it has ended, that is noticed

    def check(self):
        pid, status = os.waitpid(self.pid, os.WNOHANG) if self.child is None else (0, self.child.poll())
        if self.child is None and pid == 0 or self.child is not None and status is None:
            return
        for s in self.sources:
            s.drain()
        code = status if self.child is not None else os.waitstatus_to_exitcode(status)
        del self.agent.processes[self.pid]
        self.signal(signal.SIGKILL)  # what it started
        if self.current is not None:
            self.agent.requests.pop(self.current.id, None)
            if self.current.sweep:
                _sweep(self.agent, self.pid, self.current)
            self.agent.say(id=self.current.id, event="exited", code=code)
        self.finish(event="exited", code=code)

    def signal(self, number):
        try:
            if number == signal.SIGINT:
                os.kill(self.pid, number)
            else:
                os.killpg(self.pid, number)
        except ProcessLookupError:
            pass


class _Run:
    """One code of a context."""

    def __init__(self, context, id, mark):
        self.context, self.id, self.credit = context, id, _WINDOW
        self.sweep, self.began, self.mark = False, _ticks(), mark
        context.agent.requests[id] = self

    def read_by_host(self, n):
        self.credit += n
        self.context.credit = self.credit
        for s in self.context.sources:
            s.listen()

    def input(self, data):
        pass

    def end_input(self):
        pass

    def signal(self, number):
        self.context.signal(number)


class _Read(_Request):
    """A file that is read."""

    def __init__(self, agent, id, m):
        path = m["path"]
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as e:
            raise _refuse(e, path)
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            os.close(fd)
            raise _Refused("invalid", "%s: it is not a regular file" % path)
        super().__init__(agent, id)
        self.fd, self.size, self.left = fd, info.st_size, m.get("limit", 1 << 62)
        os.lseek(fd, m.get("offset", 0), os.SEEK_SET)
        self.agent.say(id=id, event="started", size=self.size)
        self.more()

    def more(self):
        """Sends as much as the window holds. Regular files are never waited for."""
        while self.credit > 0:
            try:
                data = os.read(self.fd, min(_PIECE, self.left))
            except OSError:
                data = b""
            if not data:
                self.signal(signal.SIGKILL)
                return
            self.left -= len(data)
            self.credit -= len(data)
            self.agent.data(self.id, _STDOUT, data)

    def read_by_host(self, n):
        self.credit += n
        self.more()

    def signal(self, number):
        """Ends the reading: at the end of the file, or because the host wants no more of it."""
        os.close(self.fd)
        self.finish(event="done")


class _Write(_Request):
    """A file that is written. It gets its name when it is whole."""

    def __init__(self, agent, id, m):
        self.path = m["path"]
        self.temp = "%s.haft-%d" % (self.path, id)
        try:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
            self.fd = os.open(self.temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW,
                              m.get("mode") or 0o644)
        except OSError as e:
            raise _refuse(e, self.path)
        super().__init__(agent, id)
        self.size, self.failed = 0, None

    def input(self, data):
        view = memoryview(data)
        try:
            while view and self.failed is None:
                view = view[os.write(self.fd, view):]
        except OSError as e:
            self.failed = e
        self.size += len(data)
        self.agent.read_by(self.id, len(data))

    def end_input(self):
        os.close(self.fd)
        try:
            if self.failed is not None:
                raise self.failed
            os.rename(self.temp, self.path)
        except OSError as e:
            self.remove()
            refused = _refuse(e, self.path)
            self.finish(event="refused", code=refused.code, message=refused.message)
            return
        self.finish(event="done", size=self.size)

    def remove(self):
        try:
            os.unlink(self.temp)
        except OSError:  # code of the session has removed it
            pass

    def signal(self, number):
        os.close(self.fd)
        self.remove()
        self.finish(event="refused", code="cancelled", message="the write was given up")


class _Dial(_Request):
    """A connection to a port of the session."""

    def __init__(self, agent, id, m):
        at = "/work/.ports/%d" % m["port"]  # where code may not listen on TCP ports
        kind, at = (socket.AF_UNIX, at) if os.path.exists(at) else (socket.AF_INET, ("127.0.0.1", m["port"]))
        s = None
        try:
            s = socket.socket(kind, socket.SOCK_STREAM)
            s.settimeout(1)  # nothing else is done meanwhile
            s.connect(at)
        except OSError:
            if s is not None:
                s.close()
            raise _Refused("not_found", "nothing listens on port %d of the session" % m["port"])
        super().__init__(agent, id)
        self.socket = s
        self.sources = [_Source(agent, self, os.dup(s.fileno()), _STDOUT)]
        self.sink = _Sink(agent, id, os.dup(s.fileno()))
        agent.say(id=id, event="started")

    def ended(self, source):
        self.socket.close()
        self.finish(event="done")

    def end_input(self):
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def signal(self, number):
        self.socket.close()
        self.finish(event="done")


def _own(f):
    """The descriptor of a file of subprocess, which then does not close it."""
    fd = os.dup(f.fileno())
    f.close()
    return fd


def _ticks():
    """Now, as the kernel tells when a process began."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _mark(m):
    """The variable by which the processes of a call are known."""
    call = (m.get("env") or {}).get("HAFT_CALL_ID")
    return b"HAFT_CALL_ID=" + call.encode("utf-8", "replace") if call else None


def _sweep(agent, group, work):
    """Kills what a cancelled call has started: processes of its group that began after it, and those that
    have its id in their environment. The environment of a process that starts a program at this moment is
    empty: it is looked at again."""
    passes = 4  # they may fork meanwhile
    for _ in range(20):
        found = unsure = False
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) in agent.processes or int(name) == os.getpid():
                continue
            try:
                with open("/proc/%s/stat" % name, "rb") as f:
                    fields = f.read().rpartition(b")")[2].split()
                if fields[0] in b"ZX" or int(fields[19]) < work.began:
                    continue
                mine = int(fields[2]) == group
                if not mine and work.mark is not None:
                    with open("/proc/%s/environ" % name, "rb") as f:
                        text = f.read()
                    mine, unsure = work.mark in text.split(b"\0"), unsure or not text
                if mine:
                    os.kill(int(name), signal.SIGKILL)
                    found = True
            except (OSError, IndexError):  # it has ended, or is somebody else's
                continue
        passes -= found
        if passes == 0 or not found and not unsure:
            return
        if not found:
            time.sleep(0.005)


def _take_terminal():
    """Makes the terminal that of the session of processes: the first that its leader opens is. TIOCSCTTY is denied."""
    os.close(os.open(os.ttyname(0), os.O_RDWR))


def _resize(fd, size):
    import fcntl
    import termios
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.get("rows", 24), size.get("cols", 80), 0, 0))


def _entry(path, name):
    st = os.lstat(path)
    kinds = {stat.S_IFDIR: "dir", stat.S_IFREG: "file", stat.S_IFLNK: "symlink"}
    e = {"path": path, "name": name, "type": kinds.get(stat.S_IFMT(st.st_mode), "other"), "size": st.st_size,
         "mode": stat.S_IMODE(st.st_mode), "modified": st.st_mtime}
    if e["type"] == "symlink":
        e["target"] = os.readlink(path)
    return e


def _list(m):
    root, out, cut, size = m["path"], [], False, 0
    waiting = [(root, 1)]
    while waiting and not cut:
        path, depth = waiting.pop(0)
        for name in sorted(os.listdir(path)):
            if len(out) >= _MAX_ENTRIES:
                cut = True
                break
            try:
                e = _entry(os.path.join(path, name), name)
            except OSError:  # it was removed meanwhile
                continue
            size += len(json.dumps(e)) + 2
            if size > _MAX_LIST:
                cut = True
                break
            out.append(e)
            if e["type"] == "dir" and depth < m.get("depth", 1):
                waiting.append((e["path"], depth + 1))
    return {"entries": out, "cut": cut}


def _remove(m):
    import shutil
    path = m["path"]
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    return {}


def _move(m):
    os.makedirs(os.path.dirname(m["to"]) or ".", exist_ok=True)
    os.rename(m["path"], m["to"])
    return {}


def _mkdir(m):
    os.makedirs(m["path"])
    return {}


_OPS = {"list": _list, "remove": _remove, "move": _move, "mkdir": _mkdir,
        "stat": lambda m: {"entries": [_entry(m["path"], os.path.basename(m["path"]))]}}
_LASTING = {"exec": _Process, "context": _Context, "read": _Read, "write": _Write, "dial": _Dial}


class _Agent:
    def __init__(self, channel, config):
        self.channel, self.config = channel, config
        self.selector, self.requests, self.processes = selectors.DefaultSelector(), {}, {}
        self.frames = bytearray()

    def send(self, payload):
        data = memoryview(len(payload).to_bytes(4, "big") + payload)
        try:
            while data:
                data = data[os.write(self.channel, data):]
        except OSError:
            os._exit(0)  # the host is gone

    def say(self, **m):
        self.send(json.dumps(m).encode("ascii"))

    def data(self, id, stream, data):
        self.send(b"\0" + struct.pack(">IB", id, stream) + data)

    def read_by(self, id, n):
        if id is not None:  # code for a kernel is no data of the host
            self.say(id=id, event="read", n=n)

    def receive(self, _):
        data = os.read(self.channel, 1 << 18)
        if not data:
            os._exit(0)  # the host is gone
        self.frames += data
        while len(self.frames) >= 4:
            n = int.from_bytes(self.frames[:4], "big")
            if n > _MAX_FRAME * 16:
                os._exit(1)
            if len(self.frames) < 4 + n:
                return
            payload = bytes(self.frames[4:4 + n])
            del self.frames[:4 + n]
            self.message(payload)

    def message(self, payload):
        """Does what a message says. Whatever fails is the end of its request and of nothing else."""
        id = 0
        try:
            if payload[:1] == b"\0":
                id, _ = struct.unpack(">IB", payload[1:6])
                r = self.requests.get(id)
                if r is not None:
                    r.input(payload[6:])
                return
            m = json.loads(payload)
            id = m["id"]
            self.request(id, m)
        except _Refused as e:
            self.say(id=id, event="refused", code=e.code, message=e.message)
        except Exception as e:
            self.say(id=id, event="refused", code="invalid", message="the session cannot do it: %s" % type(e).__name__)

    def request(self, id, m):
        op = m["op"]
        r = self.requests.get(id)
        if op == "read_by":
            if r is not None:
                r.read_by_host(m["n"])
        elif op == "eof":
            if r is not None:
                r.end_input()
        elif op == "signal":
            if r is not None:
                if m.get("sweep"):
                    r.sweep = True
                r.signal(m["signal"])
        elif op == "resize":
            if r is not None and getattr(r, "terminal", None) is not None:
                _resize(r.sources[0].fd, m)
        elif op in _LASTING:
            _LASTING[op](self, id, m)
        elif op == "run":
            context = self.requests.get(m["context"])
            if not isinstance(context, _Context):
                raise _Refused("not_found", "there is no such context")
            context.run(id, m["code"] if context.language == "bash" else json.dumps(m), _mark(m))
        else:
            try:
                self.say(id=id, event="done", **_OPS[op](m))
            except OSError as e:
                raise _refuse(e, m["path"])

    def wake(self, _):
        try:
            while os.read(self.woken, 4096):
                pass
        except BlockingIOError:
            pass
        for p in list(self.processes.values()):
            try:
                p.check()
            except Exception:  # it is looked at again when the next process ends
                pass
        self.reap()

    def reap(self):
        """Waits for orphans that have ended: the first process of a sandbox is their parent, and they count for its
        limit of processes until then."""
        try:
            while True:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None or ended.si_pid in self.processes:
                    return  # one of ours that has ended just now is checked next
                os.waitpid(ended.si_pid, 0)
        except OSError:
            pass  # there is none, or it is looked for again when the next process ends

    def serve(self):
        self.woken, w = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(w, False)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # programs that it starts get the default
        signal.set_wakeup_fd(w, warn_on_full_buffer=False)
        self.selector.register(self.woken, selectors.EVENT_READ, self.wake)
        self.selector.register(self.channel, selectors.EVENT_READ, self.receive)
        self.say(id=0, event="ready")
        while True:
            for key, mask in self.selector.select():
                if key.fileobj in self.selector.get_map():  # not closed by an earlier one
                    key.data(mask)


def serve(channel, config):
    """Serves the session until the host is gone."""
    for k, v in (config.get("env") or {}).items():
        os.environ[k] = v
    try:
        os.makedirs("/work/out", exist_ok=True)  # where code leaves files for its caller
    except OSError:
        pass
    for p in config.get("path") or ():
        if p not in sys.path:
            sys.path.append(p)
    _Agent(channel, config).serve()
