"""Serve a report on this machine, and send what happens in a run to it (server-sent events).

The server listens on 127.0.0.1 only. Every address contains a token from the operating system; requests
without it, or with another Host, are refused, so that other users and other web pages cannot read the
report.
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
_PAUSE = 15.0  # seconds between comments that keep a quiet connection open


class Server:
    """A report that is being served; `send` reaches every page that is open, also those opened later."""

    def __init__(self, text: Callable[[], str]) -> None:
        self.text = text
        self.token = secrets.token_urlsafe(24)
        self._past: list[bytes] = []
        self._pages: list[queue.SimpleQueue[bytes]] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._http = ThreadingHTTPServer((HOST, 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The address of the report, with its token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def port(self) -> int:
        """The port, chosen by the operating system."""
        return int(self._http.server_address[1])

    def send(self, kind: str, content: Any, *, keep: str = "") -> None:
        """Send an event to all pages; of events with the same `keep`, later pages get the last one only."""
        message = f"event: {kind}\ndata: {json.dumps(content)}\n".encode()
        mark = f"id: {keep}\n\n".encode() if keep else b"\n"
        with self._lock:
            if keep:
                self._past = [old for old in self._past if not old.endswith(mark)]
            self._past.append(message + mark)
            for page in self._pages:
                page.put(message + mark)

    def follow(self) -> Iterator[bytes]:
        """All events so far and to come, until the server stops."""
        page: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        with self._lock:
            past = list(self._past)
            self._pages.append(page)
        try:
            yield from past
            while not self._stopped.is_set():
                try:
                    yield page.get(timeout=_PAUSE)
                except queue.Empty:
                    yield b": still here\n\n"
        finally:
            with self._lock:
                self._pages.remove(page)

    def wait(self) -> None:
        """Wait until the server is stopped, which Ctrl-C does."""
        self._stopped.wait()

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering."""
        self._stopped.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def serving(text: Callable[[], str]) -> Iterator[Server]:
    """A server of the page that `text` returns, for the time of the block."""
    server = Server(text)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            """Answer with the page, or with events."""
            parts = urlsplit(self.path)
            given = parse_qs(parts.query).get("token", [""])[0]
            host = self.headers.get("Host", "")
            if host != f"{HOST}:{server.port}" or not secrets.compare_digest(
                given.encode(), server.token.encode()
            ):
                self._answer(403, "text/plain", b"This address needs the token that polydag has printed.\n")
            elif parts.path == "/":
                self._answer(200, "text/html; charset=utf-8", server.text().encode())
            elif parts.path == "/events":
                self._events()
            else:
                self._answer(404, "text/plain", b"There is nothing here.\n")

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self._head(code, kind)
            self.wfile.write(body)

        def _head(self, code: int, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.end_headers()

        def _events(self) -> None:
            self._head(200, "text/event-stream")
            try:
                for event in server.follow():
                    self.wfile.write(event)
                    self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                return  # the page was closed

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
            """Print nothing: the address contains the token."""

    return Handler
