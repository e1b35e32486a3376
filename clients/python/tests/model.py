"""A server of a language model that follows a script, in the forms of Chat Completions and of Responses."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Script: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def calls(*asked: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """What a model says that calls tools, all in one answer."""
    made = [
        {"id": uuid.uuid4().hex, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for name, args in asked
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def says(text: str) -> dict[str, Any]:
    """What a model says that has done its work."""
    return {"role": "assistant", "content": text}


class Model:
    """Answers one message after the other, and keeps what it was asked."""

    def __init__(self, *messages: dict[str, Any], script: Script | None = None) -> None:
        self.messages = list(messages)
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    @property
    def offered(self) -> set[str]:
        """The names of the tools that the first request offered."""
        return {t["function"]["name"] for t in self.requests[0].get("tools", [])}

    @property
    def results(self) -> list[str]:
        """What the last request says of the calls, in the order of the calls."""
        return [_text(m["content"]) for m in self.requests[-1]["messages"] if m["role"] == "tool"]

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a request."""
        if self.script is not None:
            message = self.script(body)
        elif len(self.requests) < len(self.messages):
            message = self.messages[len(self.requests)]
        else:
            message = says("No more.")
        self.requests.append(body)
        if "input" in body:
            return _response(message)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        return {
            "id": f"answer_{len(self.requests)}",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


def calculator(body: dict[str, Any]) -> dict[str, Any]:
    """Add 1 and 2 with a tool, and say what it gave, whoever asks."""
    names = {t.get("function", t)["name"] for t in body["tools"]}
    said = json.dumps(body.get("messages") or body["input"])
    if not re.search(r'"(tool|function_call_output|tool-response)"|Observation', said):
        return calls(("add", {"a": 1, "b": 2}))
    return calls(("final_answer", {"answer": "It is 3."})) if "final_answer" in names else says("It is 3.")


def _response(message: dict[str, Any]) -> dict[str, Any]:
    """A message in the form of Responses."""
    output: list[dict[str, Any]] = [
        {"type": "function_call", "id": "f", "call_id": c["id"], "status": "completed", **c["function"]}
        for c in message.get("tool_calls", [])
    ]
    if message["content"]:
        content = [{"type": "output_text", "text": message["content"], "annotations": []}]
        output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content})
    answer = {"id": "r", "object": "response", "created_at": 1, "model": "scripted", "status": "completed"}
    return {**answer, "output": output, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@contextmanager
def serve(*messages: dict[str, Any], script: Script | None = None) -> Iterator[Model]:
    """A model that listens."""
    model = Model(*messages, script=script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = json.dumps(model.answer(body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
