"""A server of a language model that follows a script, in the form of Chat Completions."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = list(messages)
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
        message = self.messages[len(self.requests)] if len(self.requests) < len(self.messages) else says("No more.")
        self.requests.append(body)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        return {
            "id": f"answer_{len(self.requests)}",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@contextmanager
def serve(*messages: dict[str, Any]) -> Iterator[Model]:
    """A model that listens."""
    model = Model(*messages)

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
