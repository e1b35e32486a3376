# Stands between session_agent.py and session_kernel.py in one module: Python as notebooks know it. Lines that begin with
# ! or % become Python on the same lines. Code that is Python already stays as it is.

_IGNORED = ("matplotlib", "load_ext", "reload_ext", "config", "autoreload")
_SHELLS = ("bash", "sh")


def _plain(code, file):
    lines = code.split("\n")
    if not any(line.lstrip().startswith(("!", "%")) for line in lines):
        return code
    import ast
    import warnings
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
        return code
    except SyntaxError:
        pass
    first = next(n for n, line in enumerate(lines) if line.strip())
    words = lines[first][2:].split()
    if lines[first].startswith("%%") and words and words[0] in _SHELLS:
        # The shell counts lines as they are in the code.
        script = "\n" * (first + 1) + "\n".join(lines[first + 1:])
        return "\n" * first + "_haft_shell(%r, %r)" % (words, script)
    out, quote, depth, goes_on, n = [], "", 0, False, 0
    while n < len(lines):
        text = lines[n].strip()
        if quote or depth or goes_on or not _is_magic(text):
            out.append(lines[n])
            quote, depth, goes_on = _scan(lines[n].rstrip("\r"), quote, depth)
            n += 1
            continue
        last = n
        while text.endswith("\\") and last + 1 < len(lines):
            last += 1
            text = text[:-1] + lines[last].strip()
        indent = lines[n][:len(lines[n]) - len(lines[n].lstrip())]
        out.append(indent + _statement(text, file, n + 1, lines[n]))
        out += [""] * (last - n)
        n = last + 1
    return "\n".join(out)


def _is_magic(text):
    return text[:1] == "!" or text[:1] == "%" and text.lstrip("%")[:1].isidentifier()


def _statement(text, file, number, line):
    """What one line that begins with ! or % is in Python."""
    name = text.lstrip("%").split(None, 1)[0]
    if text[0] == "!" or text[:2] != "%%" and name == "pip":
        return "_exit_code = _haft_shell(%r)" % text[1:].strip()
    if text[:2] != "%%" and name in _IGNORED:
        return "pass"
    if text[:2] == "%%" and name in _SHELLS:
        raise _no_magic("%%%%%s must be the first line of the code" % name, file, number, line)
    mark = "%%" if text[:2] == "%%" else "%"
    raise _no_magic("the magic %s%s of notebooks is not available; write it in Python, or as a command of the shell after !"
                    % (mark, name), file, number, line)


def _no_magic(message, file, number, line):
    return SyntaxError(message, (file, number, len(line) - len(line.lstrip()) + 1, line))


def _scan(line, quote, depth):
    """Returns the quote and the number of brackets that are open after a line, and whether it goes on in the next."""
    i = 0
    while i < len(line):
        c = line[i]
        if c == "\\":
            i += 2
        elif quote and line.startswith(quote, i):
            i += len(quote)
            quote = ""
        elif quote:
            i += 1
        elif c == "#":
            break
        elif c in "\"'":
            quote = c * 3 if line.startswith(c * 3, i) else c
            i += len(quote)
        else:
            depth = max(depth + (c in "([{") - (c in ")]}"), 0)
            i += 1
    goes_on = i > len(line)
    return quote if len(quote) == 3 or goes_on else "", depth, goes_on


def _below(pid):
    """Returns a process and those that descend from it, as far as /proc shows them."""
    found = [pid]
    for p in found:
        try:
            for task in os.listdir("/proc/%d/task" % p):
                with open("/proc/%d/task/%s/children" % (p, task)) as f:
                    found += map(int, f.read().split())
        except OSError:
            pass
    return found


def _haft_shell(command, script=None):
    """Runs a command and returns its status, or a script, for its standard input, that has to succeed. An interrupt ends it
    and what runs below it. What it leaves in the background ends with the context."""
    import signal
    import subprocess
    import threading
    for s in (sys.stdout, sys.stderr):
        s.flush()
    given = None if script is None else script.replace("\r\n", "\n").encode("utf-8", "replace")
    p, early = None, []
    main = threading.current_thread() is threading.main_thread()  # who else gets no interrupts
    try:
        # An interrupt while it is started would come before anybody knows what to end.
        handler = main and signal.signal(signal.SIGINT, lambda *_: early.append(1))
        try:
            p = subprocess.Popen(command, shell=script is None, stdin=None if script is None else subprocess.PIPE)
        finally:
            if main:
                signal.signal(signal.SIGINT, handler)
        if early:
            raise KeyboardInterrupt
        p.communicate(given)
    except BaseException:
        if p is not None and p.poll() is None:
            for pid in _below(p.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            p.wait()
        raise
    if script is None:
        return p.returncode
    if p.returncode:
        raise subprocess.CalledProcessError(p.returncode, command)
