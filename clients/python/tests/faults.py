"""Servers that misbehave."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def misbehaving(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve each connection with a function, and say where. All threads end with the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    open_: list[socket.socket] = []

    def one(conn: socket.socket) -> None:
        with contextlib.suppress(OSError), conn:
            serve(conn)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                conn, _ = listener.accept()
                open_.append(conn)
                thread = threading.Thread(target=one, args=[conn])
                threads.append(thread)
                thread.start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for conn in open_:
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def read_request(conn: socket.socket) -> bytes:
    """Read a request whose body is at most one piece."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        piece = conn.recv(65536)
        if not piece:
            raise OSError("gone")
        raw += piece
    return raw


def answer(conn: socket.socket, body: bytes, head: str = "") -> None:
    conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body)
