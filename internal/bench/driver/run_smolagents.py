"""Runs the job by smolagents' LocalPythonExecutor, a new one for each call: an interpreter of Python in Python, without isolation."""
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from smolagents.local_python_executor import LocalPythonExecutor

CODE = "def add(a, b):\n    return a + b\nadd(19, 23)"
lock = threading.Lock()


def call(number):
    try:
        executor = LocalPythonExecutor(additional_authorized_imports=[])
        executor.send_tools({})
        out = {"id": number, "value": str(executor(CODE).output)}
    except Exception as e:  # the caller hears it
        out = {"id": number, "error": repr(e)}
    with lock:
        print(json.dumps(out), flush=True)


with ThreadPoolExecutor(64) as pool:
    for line in sys.stdin:
        pool.submit(call, int(line))
