"""A live page, served to this computer alone."""

import re
import secrets
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from newfound.core.errors import NewfoundError, UsageError
from newfound.report.live import NOT_FOUND, Answer, Live

HOST = "127.0.0.1"
MOST_BYTES = 2**20
"""Of an edit."""


class Server(ThreadingHTTPServer):
    """Answers only who knows the address, a part of which is secret; so no other page can edit anything."""

    daemon_threads = True

    def __init__(self, live: Live, port: int) -> None:
        self.live, self.lock, self.secret = live, Lock(), secrets.token_urlsafe(12)
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise UsageError(
                f"--port must be one that is free; got {port}: {error.strerror}; leave it out"
            ) from None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.secret}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone away is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_GET(self) -> None:
        self._answer(self.server.live.get)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,9}", length, re.ASCII) or int(length) > MOST_BYTES:
            self._send(Answer(b"an edit must be short, and tell its length", status=HTTPStatus.BAD_REQUEST))
            return
        body = self.rfile.read(int(length))
        self._answer(lambda path: self.server.live.post(body) if path == "edit" else NOT_FOUND)

    def _answer(self, respond: Callable[[str], Answer]) -> None:
        secret, slash, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not secrets.compare_digest(secret.encode(), self.server.secret.encode()) or not slash:
            self._send(NOT_FOUND)
            return
        with self.server.lock:
            try:
                answer = respond(path)
            except (NewfoundError, OSError) as error:
                answer = Answer(str(error).encode(), status=HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads of every request."""
