"""Tools that use too much."""

import ctypes
import os
import socket
import subprocess
import time


def use(what: str) -> object:
    """Use too much of something, or reach for something that is not the tool's.

    Args:
        what: What to use: time, cpu, memory, processes, disk, output, or what to reach for.
    """
    match what:
        case "time":
            time.sleep(60)
        case "cpu":
            while True:
                pass
        case "memory":
            return len(bytearray(os.urandom(1)) * (1 << 30))
        case "disk":
            with open("big", "wb") as f:
                for _ in range(1000):
                    f.write(b"x" * (1 << 20))
        case "result":
            return "x" * (8 << 20)
        case "nothing":
            return "done"
        case "processes":
            for _ in range(10_000):
                subprocess.Popen(["sleep", "60"])
        case "memory of another process":
            return ctypes.CDLL(None, use_errno=True).ptrace(16, os.getppid(), None, None)  # PTRACE_ATTACH
        case "files of the host":
            return sorted(set(os.listdir("/home")) if os.path.isdir("/home") else [])
        case "root":
            os.setuid(0)
            return os.getuid()
        case "processes of others":
            return [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 50]
        case "network":
            socket.create_connection(("1.1.1.1", 443), timeout=3)
        case "mount":
            return subprocess.run(["mount", "-t", "tmpfs", "none", "/mnt"], check=True).returncode
        case "write":
            with open("/etc/passwd", "a") as f:
                f.write("x")
    return None
