"""The template: an interpreter that is forked into sandboxes.

Haft sends one message with the program to boot and the steps that confine a
fork, and then one message for each fork. A fork carries out its steps before it
reads a byte of its call. The steps are system calls that Haft compiled: this
file decides nothing about confinement, it only reports the first that fails.
"""
import ctypes
import gc
import json
import os
import struct
import sys

# Every page that a fork writes to is copied, and most of them because an object was looked at. So
# what a fork does between its birth and the call is kept short: functions are looked up here, once,
# and sockets are those of C.
import _socket

CONTROL = 3
libc = ctypes.PyDLL(None, use_errno=True)
syscall = libc.syscall
syscall.restype = ctypes.c_long
syscall.argtypes = [ctypes.c_long] * 7
python = ctypes.pythonapi
before_fork, after_parent, after_child = (
    python.PyOS_BeforeFork, python.PyOS_AfterFork_Parent, python.PyOS_AfterFork_Child)
before_fork.restype = after_parent.restype = after_child.restype = None
# Up to Python 3.11 the three only deal with locks and threads of the interpreter, and call what was registered. A
# template has one thread, which holds no lock when it forks. Later versions also do things that a fork needs.
HOOKS = sys.version_info >= (3, 12)
getpid = os.getpid
scan = json.JSONDecoder().scan_once  # what json.loads does, without its regular expressions

# What modules want done at a fork is about threads and locks, of which a template has none in use, and
# costs a fork more than its call. It holds for the forks that a tool makes.
handlers = []
register_at_fork = os.register_at_fork


def remember(**functions):
    """Take the place of os.register_at_fork in the template."""
    handlers.append(functions)


os.register_at_fork = remember


def connection(fd):
    """Return the socket of a descriptor."""
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)


def receive(sock):
    """Return the next message and its descriptors, or None at the end."""
    head, rights, _, _ = sock.recvmsg(4, 1024, _socket.MSG_CMSG_CLOEXEC)
    fds = []
    for _, _, data in rights:
        fds += struct.unpack("@%di" % (len(data) // 4), data[:len(data) & ~3])
    if not head:
        return None, fds
    while len(head) < 4:
        head += sock.recv(4 - len(head))
    size = int.from_bytes(head, "little")
    body = sock.recv(size)
    while len(body) < size:
        part = sock.recv(size - len(body))
        if not part:
            return None, fds
        body += part
    return scan(body.decode(), 0)[0], fds


def frame(body):
    """Return a message with its length in front."""
    return len(body).to_bytes(4, "little") + body


def failed(**why):
    """Return the message that something failed."""
    return frame(json.dumps({"kind": "failed", **why}).encode())


def send(sock, data, fds=()):
    """Send the bytes of a message, and descriptors."""
    if fds:
        rights = struct.pack("@%di" % len(fds), *fds)
        sent = sock.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        data = data[sent:]
    if data:
        sock.sendall(data)


READY = frame(b'{"kind":"ready"}')


class Failure(Exception):
    """A step that did not succeed."""

    def __init__(self, step, path, errno):
        super().__init__(step, path, errno)
        self.message = failed(failure={"step": step, "path": path, "errno": errno})


def buffer(data):
    """Return a C buffer that stays where it is."""
    return ctypes.create_string_buffer(bytes(data), len(data))


def decode(text):
    """Return the bytes of a field that JSON carries as base64."""
    import binascii
    return binascii.a2b_base64(text or "")


class Steps:
    """Steps made ready in the template, so that a fork has only to call."""

    def __init__(self, steps, numbers):
        self.numbers = numbers
        self.hold = []  # buffers whose addresses are in the calls
        self.todo = []
        for s in steps:
            if s["do"] != "syscall":
                self.todo.append((s, self.ready(s)))
                continue
            # System calls one after the other are made by one loop.
            if not self.todo or self.todo[-1][0] is not None:
                self.todo.append((None, []))
            self.todo[-1][1].append((self.arguments(s), s))

    def address(self, data):
        b = buffer(data)
        self.hold.append(b)
        return ctypes.addressof(b)

    def arguments(self, s):
        """Return the number of a system call and its arguments."""
        args = [s["nr"]]
        for a in s.get("args") or ():
            if a.get("s"):
                args.append(self.address(a["s"].encode() + b"\0"))
            elif a.get("b"):
                args.append(self.address(decode(a["b"])))
            else:
                n = a.get("i", 0)
                args.append(n - (1 << 64) if n >= 1 << 63 else n)
        return tuple(args + [0] * (7 - len(args)))

    def ready(self, s):
        """Return a function of slots that carries out a step."""
        do = s["do"]
        if do == "file":
            data = decode(s.get("data"))
            return lambda slots: write(s, data)
        if do == "join":
            return lambda slots: os.write(slots[s.get("slot", 0)], b"0")
        if do == "keep":
            return lambda slots: os.open(s["path"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if do == "listen":
            from fcntl import ioctl
            return lambda slots: listen(s, ioctl)
        if do == "loopback":
            from fcntl import ioctl
            return lambda slots: raise_loopback(ioctl)
        if do == "landlock":
            attr = decode(s["data"])
            where = self.address(attr)
            return lambda slots: self.landlock(s, where, len(attr))
        if do == "seccomp":
            program = decode(s["data"])
            where = self.address(struct.pack("@HP", len(program) // 8, self.address(program)))
            if s.get("listen"):
                return lambda slots: observe(s, self.numbers["seccomp"], where)
            return lambda slots: check(s, self.numbers["seccomp"], 1, 0, where, 0, 0, 0)
        if do == "own":
            return None
        raise ValueError(do)

    def landlock(self, s, where, size):
        n = self.numbers
        ruleset = check(s, n["landlock_create_ruleset"], where, size, 0, 0, 0, 0)
        for rule in s["rules"]:
            if rule.get("port"):
                attr = buffer(struct.pack("=QQ", rule["access"], rule["port"]))
                check(s, n["landlock_add_rule"], ruleset, 2, ctypes.addressof(attr), 0, 0, 0)
                continue
            fd = os.open(rule["path"], os.O_PATH | os.O_CLOEXEC)
            attr = buffer(struct.pack("=Qi", rule["access"], fd))
            check(s, n["landlock_add_rule"], ruleset, 1, ctypes.addressof(attr), 0, 0, 0)
            os.close(fd)
        check(s, n["landlock_restrict_self"], ruleset, 0, 0, 0, 0, 0)
        os.close(ruleset)

    def run(self, slots, own=None, filters=()):
        """Carry out the steps and return the descriptors that Haft wants. Filters replace the step of the filter."""
        keep = []
        for s, do in self.todo:
            if s is None:
                for args, call in do:
                    if syscall(*args) == -1:
                        refused(call)
                continue
            if s["do"] == "seccomp" and filters:
                (s, do), = filters
            if do is None:
                if own is not None:
                    own.run(())
                continue
            try:
                r = do(slots)
            except OSError as e:
                raise Failure(s["name"], s.get("path", ""), e.errno) from None
            if s["do"] in ("keep", "listen") or s.get("listen"):
                keep.append(r)
        return keep


def check(s, *args):
    """Make a system call."""
    r = syscall(*args)
    if r == -1:
        refused(s)
    return r


def refused(s):
    """Raise a Failure, unless the step allows for it."""
    errno = ctypes.get_errno()
    if errno != s.get("allow", 0):
        raise Failure(s["name"], s.get("path", ""), errno)


def observe(s, number, where):
    """Load a filter that asks its listener, and return that. See plan.Step.seccomp."""
    for flags in (0x28, 0x08):
        fd = syscall(number, 1, flags, where, 0, 0, 0)
        if fd >= 0:
            return fd
    raise Failure(s["name"], "", ctypes.get_errno())


def write(s, data):
    """Write a new file."""
    fd = os.open(s["path"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, s.get("mode", 0))
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
    os.close(fd)


def raise_loopback(ioctl):
    """Make 127.0.0.0/8 there."""
    lo = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    ioctl(lo.fileno(), 0x8914, struct.pack("16sH22x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
    lo.close()


def listen(s, ioctl):
    """Raise the loopback and listen there."""
    raise_loopback(ioctl)
    door = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
    door.bind(("127.0.0.1", s["port"]))
    door.listen(s["queue"])
    return door.detach()


class CloneArgs(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in (
        "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls",
        "set_tid", "set_tid_size", "cgroup")]


class Template:
    """The process that is forked."""

    def __init__(self, sock):
        self.sock = sock
        config, _ = receive(sock)
        self.numbers = config["numbers"]
        self.steps = Steps(config["steps"], self.numbers)
        self.last = Steps(config["last"], self.numbers)
        self.time_flag = config["time"]
        self.pidfd = ctypes.c_int(-1)
        self.args = CloneArgs()
        self.args.flags = config["flags"]
        self.args.pidfd = ctypes.addressof(self.pidfd)
        # glibc keeps the number of the thread where the kernel clears it at the
        # thread's end. A fork has another number.
        where = ctypes.c_uint64(0)
        if syscall(self.numbers["prctl"], 40, ctypes.addressof(where), 0, 0, 0, 0) == 0 and where.value:
            self.args.child_tid = where.value
            self.args.flags |= 0x01000000 | 0x00200000  # CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID
        self.names = {"__name__": "haft_boot"}
        sys.modules.pop("__main__", None)
        main = type(sys)("__main__")
        sys.modules["__main__"] = main
        exec(compile(config["boot"], "<haft>", "exec", dont_inherit=True), self.names)
        self.main = self.names["main"]
        # No two forks draw the same numbers.
        self.random = getattr(sys.modules.get("random"), "_inst", None)
        self.seed = self.random and sys.modules["_random"].Random.seed
        if not HOOKS:
            settle()
            self.names.get("early", int)()
        gc.collect()
        gc.disable()
        gc.freeze()

    def serve(self):
        """Fork until Haft closes the socket."""
        send(self.sock, READY)
        prime = self.names.get("prime")
        while True:
            order, fds = receive(self.sock)
            if order is None:
                return None
            cell = self.fork(order, fds)
            if cell is not None:
                return cell
            if prime:
                # The first fork is waited for. Those that follow are not, as a rule.
                prime = self.primed(prime)

    def primed(self, prime):
        """Have the program find out what it can for all forks. They do without."""
        try:
            prime()
        except Exception:
            pass
        gc.collect()
        gc.freeze()

    def fork(self, order, fds):
        """Make one fork. In the fork, return what it is to do."""
        steps = Steps(order["steps"], self.numbers) if order.get("steps") else None
        filters = Steps(order["observe"], self.numbers).todo if order.get("observe") else ()
        try:
            if self.time_flag:
                self.clock(order["clock"])
            r, w = os.pipe()
            if HOOKS:
                before_fork()
            pid = syscall(self.numbers["clone3"], ctypes.addressof(self.args), ctypes.sizeof(self.args), 0, 0, 0, 0)
            errno = ctypes.get_errno()
            if pid == 0:
                if HOOKS:
                    after_child()
                return order, fds, steps, filters, r, w
            if HOOKS:
                after_parent()
            os.close(r)
            if pid < 0:
                os.close(w)
                raise Failure("clone", "", errno)
            try:
                self.map(pid, order)
                os.write(w, b"1")
                send(self.sock, frame(b'{"kind":"forked","pid":%d}' % pid), [self.pidfd.value])
            finally:
                os.close(w)
                os.close(self.pidfd.value)
        except Failure as f:
            send(self.sock, f.message)
        except OSError as e:
            send(self.sock, Failure("fork", e.filename or "", e.errno).message)
        finally:
            if getpid() != 1:
                for fd in fds:
                    os.close(fd)
        return None

    def clock(self, offsets):
        """Make the time namespace that the next fork is born in."""
        check({"name": "unshare", "path": "time"}, self.numbers["unshare"], self.time_flag, 0, 0, 0, 0, 0)
        fd = os.open("/proc/self/timens_offsets", os.O_WRONLY)
        try:
            os.write(fd, offsets.encode())
        finally:
            os.close(fd)

    def map(self, pid, order):
        """Say who the fork's user is, out here."""
        for name, text in order["maps"]:
            fd = os.open("/proc/%d/%s" % (pid, name), os.O_WRONLY)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)


def start(template, cell):
    """The life of a fork."""
    order, fds, steps, filters, r, w = cell
    sock = connection(fds[3])
    try:
        if os.read(r, 1) != b"1" or (order.get("wait") and not os.read(fds[3], 1)):
            os._exit(124)
        # Out of the way of 0 to 3, which the control socket is one of.
        os.dup2(fds[0], 0)
        os.dup2(fds[1], 1)
        os.dup2(fds[2], 2)
        if order["channel"]:
            os.dup2(fds[4], CONTROL)
        else:
            os.close(CONTROL)
        keep = template.steps.run(fds[5 if order["channel"] else 4:], steps, filters)
        send(sock, READY, keep)
        template.last.run(())
        sock.detach()
        first = CONTROL + 1 if order["channel"] else CONTROL
        check({"name": "close_range"}, template.numbers["close_range"], first, 0xFFFFFFFF, 0, 0, 0, 0)
    except Failure as f:
        send(sock, f.message)
        os._exit(125)
    except BaseException as e:
        errno = e.errno if isinstance(e, OSError) and e.errno else 5
        send(sock, Failure("fork", repr(e)[:200], errno).message)
        os._exit(125)


def settle():
    """Register what modules want done at a fork, which holds from now on."""
    os.register_at_fork = register_at_fork
    for functions in handlers:
        register_at_fork(**functions)


def main():
    sock = connection(CONTROL)
    try:
        template = Template(sock)
    except BaseException as e:
        import traceback
        text = "".join(traceback.format_exception(type(e), e, e.__traceback__))
        send(sock, failed(error=text[-4000:]))
        os._exit(1)
    cell = template.serve()
    if cell is None:
        os._exit(0)
    sock.detach()
    start(template, cell)
    del cell  # with the content of files
    code = 0
    try:
        if HOOKS:
            settle()
        if template.random is not None:
            template.seed(template.random)  # it has drawn none, so that this is all
        gc.enable()
        # What belongs to the template stays: to free it would copy the pages that it is on.
        template.main(CONTROL)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except BaseException:
        import traceback
        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


main()
