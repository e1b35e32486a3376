import ctypes, errno, os, sys, time
E = os.environ
libc = ctypes.CDLL(None, use_errno=True)

def say(*words):
    os.write(1, (' '.join(str(w) for w in words) + '\n').encode('utf-8', 'backslashreplace'))

def failed(number):
    raise OSError(number, os.strerror(number))

# call makes a system call by name and raises what it says.
def call(name, *args):
    fixed = [a.encode() if isinstance(a, str) else a for a in args]
    fixed = [ctypes.c_long(a) if isinstance(a, int) else a for a in fixed]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(NR[name]), *fixed)
    if result < 0:
        failed(ctypes.get_errno())
    return result

# attempt does f in a child of its own, so that a kill ends only this, and says
# what came of it: an errno's name, a signal, or "done" with what f returned.
def attempt(name, f):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            v = f()
            v = 'done' if v is None else 'done:%s' % (v,)
        except OSError as e:
            v = errno.errorcode.get(e.errno, str(e))
        except BaseException as e:
            v = type(e).__name__
        os.write(w, v.encode('utf-8', 'backslashreplace'))
        os._exit(0)
    os.close(w)
    v = b''
    while True:
        chunk = os.read(r, 4096)
        if not chunk:
            break
        v += chunk
    os.close(r)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        v = b'SIG%d' % os.WTERMSIG(status)
    say(name, v.decode())

def readable(path):
    with open(path, 'rb') as f:
        return f.read(64).hex()

# writable opens a file for writing. Containers hide files of /proc by /dev/null, which
# anybody can write to and which changes nothing.
def writable(path):
    fd = os.open(path, os.O_WRONLY)
    null = os.fstat(fd).st_rdev == os.makedev(1, 3)
    os.close(fd)
    if null and path != '/dev/null': failed(errno.ENOENT)

# line reads a line from descriptor 3, tell writes one.
def line():
    s = b''
    while not s.endswith(b'\n'):
        c = os.read(3, 1)
        if not c:
            break
        s += c
    return s.decode().strip()

def tell(*words):
    os.write(3, (' '.join(str(w) for w in words) + '\n').encode())
