"""The template: an interpreter that is forked into sandboxes.

Haft sends one message with the program to boot. The template answers with the
addresses of two areas of its memory, and gets a loop for the first of them: a
table of system calls that Haft compiled, and that machine code of Haft's carries
out (package forkprog). The loop receives orders into the second area, forks, and
has the fork confine itself before it reads a byte of its call. This file decides
nothing about that. It is called in each fork, and reports the first call that fails.
"""
import ctypes
import gc
import json
import os
import sys

# Every page that a fork writes to is copied, and most of them because an object was looked at. So
# what a fork does between its birth and the call is kept short.
import _socket

CONTROL = 3
CLOSED, FORKED = 0, 1
libc = ctypes.PyDLL(None, use_errno=True)
python = ctypes.pythonapi
before_fork, after_parent, after_child = (
    python.PyOS_BeforeFork, python.PyOS_AfterFork_Parent, python.PyOS_AfterFork_Child)
before_fork.restype = after_parent.restype = after_child.restype = None
# Up to Python 3.11 the three only deal with locks and threads of the interpreter, and call what was registered. A
# template has one thread, which holds no lock when it forks. Later versions also do things that a fork needs.
HOOKS = sys.version_info >= (3, 12)

# What modules want done at a fork is about threads and locks, of which a template has none in use, and
# costs a fork more than its call. It holds for the forks that a tool makes.
handlers = []
register_at_fork = os.register_at_fork


def remember(**functions):
    """Take the place of os.register_at_fork in the template."""
    handlers.append(functions)


os.register_at_fork = remember


def receive(sock):
    """Return the next message."""
    size = int.from_bytes(sock.recv(4, _socket.MSG_WAITALL), "little")
    return json.loads(sock.recv(size, _socket.MSG_WAITALL))


def send(sock, **message):
    """Send a message."""
    body = json.dumps(message).encode()
    sock.sendall(len(body).to_bytes(4, "little") + body)


def area(size, flags=0):
    """Return the address of new memory."""
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    at = libc.mmap(None, size, 3, 0x22 | flags, -1, 0)  # PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS
    if at is None or at == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return at


def function(code):
    """Return machine code as a function."""
    at = area(len(code))
    ctypes.memmove(at, code, len(code))
    if libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(len(code)), 5) != 0:  # PROT_READ|PROT_EXEC
        raise OSError(ctypes.get_errno(), "mprotect")
    # It keeps the lock of the interpreter: there is no other thread.
    return ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)(at)


def thread_id():
    """Return where the C library keeps the number of the thread, which the kernel clears at the thread's end. A
    fork has another number."""
    where = ctypes.c_uint64(0)
    got = libc.prctl(40, ctypes.byref(where), 0, 0, 0)  # PR_GET_TID_ADDRESS
    return where.value if got == 0 else 0


class Template:
    """The process that is forked."""

    def __init__(self, sock):
        import binascii
        self.sock = sock
        config = receive(sock)
        self.run = function(binascii.a2b_base64(config["code"]))
        self.size = config["order"]
        self.loop, self.order = area(config["loop"]), area(self.size, 0x4000)  # MAP_NORESERVE
        self.failure = (ctypes.c_int64 * 2)()
        names = {"__name__": "haft_boot"}
        sys.modules.pop("__main__", None)
        sys.modules["__main__"] = type(sys)("__main__")
        exec(compile(config["boot"], "<haft>", "exec", dont_inherit=True), names)
        self.main, self.prime = names["main"], names.get("prime")
        # No two forks draw the same numbers.
        self.random = getattr(sys.modules.get("random"), "_inst", None)
        self.seed = self.random and sys.modules["_random"].Random.seed
        if not HOOKS:
            settle()
            names.get("early", int)()
        send(sock, kind="ready", areas={
            "loop": self.loop, "order": self.order, "tid": thread_id(), "hooks": HOOKS})
        config = receive(sock)
        program, self.socket = binascii.a2b_base64(config["program"]), config["socket"]
        ctypes.memmove(self.loop, program, len(program))
        send(sock, kind="ready")
        gc.collect()
        gc.disable()
        gc.freeze()

    def serve(self):
        """Fork until Haft closes the socket, and return whether this is a fork."""
        run, loop, failure = self.run, ctypes.c_void_p(self.loop), ctypes.byref(self.failure)
        while True:
            if HOOKS:
                before_fork()
            end = run(loop, failure)
            if end == FORKED:
                if HOOKS:
                    after_child()
                return True
            if os.getpid() == 1:
                try:
                    own = ctypes.c_int.from_address(self.socket).value
                    self.report(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, own))
                finally:
                    os._exit(125)
            if HOOKS:
                after_parent()
            if end == CLOSED:
                return False
            if end < 0:
                self.report(self.sock)
                if not self.order <= self.failure[0] < self.order + self.size:
                    # The loop itself failed, such as in the middle of an order. What comes next in the socket may be
                    # the content of a file, which must not be taken for an order.
                    return False
                os.closerange(CONTROL + 1, 1 << 16)
                # The next fork must not find what this one should have got.
                libc.madvise(ctypes.c_void_p(self.order), ctypes.c_size_t(self.size), 4)  # MADV_DONTNEED
            elif self.prime:
                self.primed()

    def report(self, sock):
        """Tell Haft which operation failed."""
        at, result = self.failure
        send(sock, kind="failed", at=at, result=result)

    def primed(self):
        """Have the program find out what it can for all forks. They do without. The first fork is waited for. Those
        that follow are not, as a rule."""
        try:
            self.prime()
        except Exception:
            pass
        self.prime = None
        gc.collect()
        gc.freeze()


def settle():
    """Register what modules want done at a fork, which holds from now on."""
    os.register_at_fork = register_at_fork
    for functions in handlers:
        register_at_fork(**functions)


def main():
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, CONTROL)
    try:
        template = Template(sock)
    except BaseException as e:
        import traceback
        text = "".join(traceback.format_exception(type(e), e, e.__traceback__))
        send(sock, kind="failed", error=text[-4000:])
        os._exit(1)
    forked = template.serve()
    sock.detach()
    if not forked:
        os._exit(0)
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
