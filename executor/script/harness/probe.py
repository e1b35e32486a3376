# Asked once of an interpreter: where does it live, what does it need of the
# host, and what does our harness look like compiled by it? The source of the
# harness comes on standard input, after a NUL the source of the reader that it
# can run aside. The answer goes out on descriptor 3.
import os, sys


def answer():
    import json, marshal, base64, sysconfig
    out = {
        "version": list(sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable or ""),
        "prefix": os.path.realpath(sys.base_prefix),
        "stdlib": [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")],
        "path": [p for p in sys.path if p],
    }
    if len(sys.argv) > 1:  # only who it is
        return json.dumps(out)
    # Shared libraries come into sight when they are loaded.
    for m in "ssl hashlib sqlite3 ctypes zlib bz2 lzma decimal socket uuid select array math unicodedata readline curses".split():
        try:
            __import__(m)
        except Exception:
            pass
    try:
        with open("/proc/self/maps") as f:
            out["libraries"] = sorted({l.split(None, 5)[5].strip() for l in f if len(l.split(None, 5)) == 6 and ".so" in l})
    except OSError:
        out["libraries"] = []
    import site
    try:
        out["site"] = site.getsitepackages()
    except Exception:
        out["site"] = []
    harness, _, reader = sys.stdin.buffer.read().decode("utf-8").partition("\0")
    code = compile(harness, "<haft>", "exec", dont_inherit=True, optimize=2)
    aside = compile(reader, "<haft>", "exec", dont_inherit=True, optimize=2)
    out["harness"] = base64.b64encode(marshal.dumps((code, aside))).decode("ascii")
    return json.dumps(out)


text = answer().encode("utf-8")
while text:
    text = text[os.write(3, text):]
