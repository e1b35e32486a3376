import array, fcntl, mmap, resource, select, signal, socket, struct

# attacks has one function for each way to hurt the supervisor or a neighbour. Each is
# repeated by a process of its own. What is refused is refused quickly, and asked for again.
PARENT, ENGINE, GROUP = os.getppid(), int(E['HOST_PID']), int(E['HOST_GROUP'])

# others are those to be hurt. In a pid namespace, the engine's number may be that of a
# process of this program, which has no use for stopping itself.
def others():
    return [pid for pid in (PARENT, ENGINE) if pid > 0 and tried(os.getsid, pid) != os.getsid(0)]

def tried(f, *args):
    try: return f(*args)
    except (OSError, ValueError, OverflowError, MemoryError): return None

def limits():
    for pid in others():
        for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK):
            tried(resource.prlimit, pid, r, (1, 1))
    for r in range(16): tried(resource.setrlimit, r, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

# A burst for the supervisor, whose handlers run at its expense, and queued ones for itself.
def signals():
    for pid in others() * 64:
        for s in (signal.SIGUSR1, signal.SIGSTOP, signal.SIGTERM): tried(os.kill, pid, s)
    # 0 and 1 are what an engine in a pid namespace of its own may have, and mean this program.
    if GROUP > 1 and GROUP != os.getpgrp(): tried(os.kill, -GROUP, signal.SIGSTOP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {40})
    info = ctypes.create_string_buffer(struct.pack('iii', 40, 0, -1), 128)
    for _ in range(256): tried(call, 'rt_sigqueueinfo', os.getpid(), 40, info)
    while signal.sigtimedwait({40}, 0): pass

def priorities():
    for pid in others():
        tried(os.setpriority, os.PRIO_PROCESS, pid, 19)
        tried(os.sched_setaffinity, pid, {0})
        tried(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))
    for which in (os.PRIO_USER, os.PRIO_PGRP): tried(os.setpriority, which, 0, 19)
    tried(os.setpriority, os.PRIO_PROCESS, 0, -20)
    tried(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
    tried(call, 'ioprio_set', 1, 0, 1 << 13)
    tried(open, '/proc/%d/oom_score_adj' % PARENT, 'w')

# As many as there are, in pipes, in sets of events, and on their way to nobody.
def files():
    kept = []
    try:
        for _ in range(8):
            a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            kept += [a, b]
            tried(a.sendmsg, [b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 250))])
        events = select.epoll(); kept.append(events)
        for _ in range(1000):
            ends = os.pipe(); kept += ends
            tried(fcntl.fcntl, ends[1], 1031, 1 << 20)
            tried(os.set_blocking, ends[1], False); tried(os.write, ends[1], b'x' * (1 << 20))
            events.register(ends[0])
    except OSError: pass
    for f in kept:
        tried(os.close, f) if isinstance(f, int) else tried(f.close)

def memory():
    m = mmap.mmap(-1, 48 << 20)
    for i in range(0, 48 << 20, 4096): m[i] = 1
    tried(m.madvise, 4) # MADV_DONTNEED
    m.close()
    libc.mlockall(3)
    tried(call, 'shmget', KEY, 1 << 20, 0o1600)
    fd = tried(os.open, '/dev/shm/' + NAME, os.O_CREAT | os.O_RDWR)
    if fd is not None: tried(os.posix_fallocate, fd, 0, 1 << 20); os.close(fd)
    fd = tried(os.memfd_create, 'x')
    if fd is not None: tried(os.write, fd, b'x' * (1 << 20)); os.close(fd)

def inotify():
    kept = []
    for _ in range(512):
        fd = tried(call, 'inotify_init1', 0)
        if fd is None: break
        kept.append(fd)
        tried(call, 'inotify_add_watch', fd, '/', 0xfff)
    for fd in kept: os.close(fd)

def terminals():
    kept = []
    for _ in range(64):
        ends = tried(os.openpty)
        if ends is None: break
        kept += ends
    tried(os.open, '/dev/tty', os.O_RDWR); tried(os.open, '/dev/console', os.O_RDWR)
    for fd in kept: os.close(fd)

def keyrings():
    for i in range(64):
        tried(call, 'add_key', 'user', NAME + str(i), b'x' * 4096, 4096, -3)
        tried(call, 'keyctl', 1, NAME + str(i))
        tried(call, 'request_key', 'user', NAME, 0, 0)

# As many as there are, each as often as the kernel lets it.
def timers():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    kept = []
    for _ in range(256):
        number = ctypes.c_int()
        if libc.timer_create(1, None, ctypes.byref(number)) < 0: break
        kept.append(number)
        libc.timer_settime(number, 0, struct.pack('llll', 0, 1, 0, 1), None)
    tried(signal.setitimer, signal.ITIMER_REAL, 1e-6, 1e-6)
    watches = []
    for _ in range(40):
        fd = libc.timerfd_create(1, 0)
        if fd < 0: break
        watches.append(fd)
        libc.timerfd_settime(fd, 0, struct.pack('llll', 0, 1, 0, 1), None)
    end = time.monotonic() + 0.01
    while time.monotonic() < end: pass
    for number in kept: libc.timer_delete(number)
    for fd in watches: os.close(fd)
    tried(signal.setitimer, signal.ITIMER_REAL, 0)

def sockets():
    for family in (1, 2, 10, 15, 16, 17, 29, 30, 31, 33, 38, 40, 44):
        for kind in (1, 2, 3, 5):
            s = tried(socket.socket, family, kind)
            if s is None: continue
            s.setblocking(False)
            if family == 1: tried(s.connect, E.get('SOCKET', '/run/none'))
            s.close()
    kept = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        for _ in range(8):
            pair = tried(socket.socketpair, socket.AF_UNIX, kind)
            if pair is None: break
            kept += pair
            pair[0].setblocking(False)
            tried(pair[0].setsockopt, socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
            while tried(pair[0].send, b'x' * 65536): pass
    for s in kept: s.close()

def filters():
    code = ctypes.create_string_buffer(struct.pack('HBBI', 0x6, 0, 0, 0xffff) * 1000)
    program = struct.pack('HxxxxxxL', 1000, ctypes.addressof(code))
    for _ in range(64):
        pair = tried(socket.socketpair)
        if pair is None: break
        for option in (26, 50, 51, 52): tried(pair[0].setsockopt, socket.SOL_SOCKET, option, program)
        for s in pair: s.close()
    libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0)
    tried(call, 'bpf', 0, ctypes.create_string_buffer(b'\x02\0\0\0\x04\0\0\0\x04\0\0\0\x01' + b'\0' * 100), 72)

def burn():
    end = time.monotonic() + 0.01
    while time.monotonic() < end: pass

ATTACKS = (limits, signals, priorities, files, memory, inotify, terminals, keyrings, timers, sockets, filters)
if BURN: ATTACKS = (burn,) * len(ATTACKS)

# The first number is the order to stop, each other one counts the rounds of one attack.
board = mmap.mmap(-1, 4096)
def board_add(i): board[8*i:8*i+8] = struct.pack('Q', struct.unpack('Q', board[8*i:8*i+8])[0] + 1)

children = []
for i, attack in enumerate(ATTACKS, 1):
    pid = os.fork()
    if pid == 0:
        os.closerange(3, 4)
        while not board[0]:
            try: attack()
            except (OSError, MemoryError): pass
            board_add(i)
        os._exit(0)
    children.append(pid)
tell('ready'); line()
board[0] = 1
for i, (pid, attack) in enumerate(zip(children, ATTACKS), 1):
    _, status = os.waitpid(pid, 0)
    say(attack.__name__, struct.unpack('Q', board[8*i:8*i+8])[0], status)
