

def _haft_profile(last_line):
    import asyncio
    import os
    import sys
    import threading
    import time

    file = sys._getframe(1).f_code.co_filename
    out = os.environ.get("HAFT_WORK", ".") + "/out/haft-test-profile"
    clock, sleep, write, frames = time.perf_counter, time.sleep, os.write, sys._current_frames

    def place(frame):
        top = frame
        while frame:
            if frame.f_code.co_filename == file and frame.f_lineno <= last_line:
                return str(frame.f_lineno)
            frame = frame.f_back
        if top.f_code.co_filename == "<haft>":  # arguments and results, before and after the tool
            return "Haft itself"
        name = top.f_code.co_name
        if name in ("select", "poll") and "selectors" in top.f_code.co_filename:
            return "waiting"
        return "%s of %s" % (name, os.path.basename(top.f_code.co_filename))

    def sample(thread, fd, begin):
        last = begin
        while True:
            sleep(max(0.001, (last - begin) / 300))  # a long call has longer steps
            frame, now = frames().get(thread), clock()
            if frame is None:
                return
            write(fd, ("%.3f %s\n" % ((now - last) * 1000, place(frame))).encode())
            last = now

    def enter(frame, event, arg):
        if frame.f_code.co_filename == file:
            sys.settrace(None)
            try:
                fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                args = (threading.get_ident(), fd, clock())
                threading.Thread(target=sample, args=args, daemon=True).start()
            except (OSError, RuntimeError):
                pass

    run = asyncio.run

    def traced(*args, **options):
        sys.settrace(enter)
        return run(*args, **options)

    asyncio.run = traced
    sys.settrace(enter)


_haft_profile({{LAST}})
