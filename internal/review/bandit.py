"""Run bandit on Python source, without running the source.

Reads source text from standard input and writes JSON like bandit -f json: of
every result its test, severity, confidence and line, and nothing of the source,
because bandit quotes passwords. Without bandit it writes {"missing": true}.
"""
import json
import logging
import os
import sys
import tempfile

MAX_SOURCE = 1 << 20    # bytes read from standard input
MAX_RESULTS = 2000


def review(source):
    try:
        from bandit.core import config, manager
    except ImportError:
        return {"missing": True}
    logging.disable(logging.CRITICAL)
    # A comment in the source must not silence the reviewer.
    m = manager.BanditManager(config.BanditConfig(), "file", ignore_nosec=True)
    # Bandit reads files. In a sandbox the directory goes with the process.
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "tool.py")
        with open(path, "wb") as f:
            f.write(source)
        m.discover_files([path])
        m.run_tests()
    results = [{
        "test_id": i.test_id, "test_name": i.test,
        "issue_severity": str(i.severity), "issue_confidence": str(i.confidence),
        "line_number": int(i.lineno),
    } for i in m.get_issue_list()]
    order = {"HIGH": 0, "MEDIUM": 1, "LOW": 2}
    results.sort(key=lambda r: (order.get(r["issue_severity"], 0), r["line_number"], r["test_id"]))
    skipped = [{"reason": "not read"} for _ in m.get_skipped()]
    return {"errors": skipped, "results": results[:MAX_RESULTS]}


if __name__ == "__main__":
    text = sys.stdin.buffer.read(MAX_SOURCE + 1)
    answer = json.dumps(review(text) if len(text) <= MAX_SOURCE else {"errors": [{"reason": "too large"}], "results": []})
    sys.stdout.write(answer)
