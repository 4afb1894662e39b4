"""The review server: the live page, its pictures and edits, for browsers on this computer only."""

import json
import re
import secrets
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Lock
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from newfound.core.errors import NewfoundError, UsageError, reason_of
from newfound.report.maps import Pictures
from newfound.review.page import THUMBNAIL, Chart, live_page, media_type
from newfound.review.review import Review
from newfound.run.folder import Folder

HOST = "127.0.0.1"
MOST_BYTES = 2**20
"""The most bytes of an edit."""
PICTURES = {"thumbnail": THUMBNAIL, "image": 2000}
"""Kind of picture → its longest side in pixels; an image fills a screen."""
MOST_WAITING = 64
"""The most connections that have not shown the secret; one more closes the oldest."""
IDLE_SECONDS = 10.0
"""Seconds after which an idle connection is closed."""
STRICT_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy of every answer: nothing from elsewhere, no forms, no frames."""


@dataclass(frozen=True)
class Answer:
    """A response to the browser."""

    content: bytes
    kind: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    policy: str = STRICT_POLICY
    caching: str = "no-store"


NOT_FOUND = Answer(b"There is nothing here.", status=HTTPStatus.NOT_FOUND)


class Posted(BaseModel):
    """An edit sent by the page, with the length of the log that the page shows."""

    model_config = ConfigDict(extra="forbid", strict=True)

    seen: int
    verb: Literal["rename", "merge", "split", "move", "accept", "undo"]
    names: dict[str, str] = {}
    into: str = ""
    others: list[str] = []
    name: str = ""
    rows: list[int] = []


APPLY: Mapping[str, Callable[[Review, Posted], object]] = {
    "rename": lambda review, edit: review.rename(edit.names),
    "merge": lambda review, edit: review.merge(edit.into, *edit.others),
    "split": lambda review, edit: review.split(edit.name),
    "move": lambda review, edit: review.move_rows(edit.into, edit.rows),
    "accept": lambda review, edit: review.accept(),
    "undo": lambda review, edit: review.undo(),
}
"""Verb → how an edit is applied."""


class Live:
    """The pages and edits of one run."""

    def __init__(self, folder: Folder, pictures: Pictures) -> None:
        self.folder, self.pictures = folder, pictures
        review = Review(folder)
        self.pile, self.chart = review.pile, Chart.of(review)

    def review(self) -> Review:
        """The review as it is now, since others may edit the classes too."""
        review = Review(self.folder)
        review.pile = self.pile
        return review

    def get(self, path: str) -> Answer:
        """Answer with the page, a picture, or the images of a class, the least confident first."""
        if not path:
            text = live_page(self.review(), self.chart)
            return Answer(text.encode(), "text/html; charset=utf-8", policy=policy_of(text))
        found = re.fullmatch(r"(thumbnail|image|class)/(-1|\d{1,9})", path, re.ASCII)
        what, number = (found[1], int(found[2])) if found else ("", 0)
        if what in PICTURES and 0 <= number < len(self.pile.scores):
            (picture,) = self.pictures([number], PICTURES[what])
            return Answer(picture, media_type(picture), caching="private, max-age=86400")
        if what == "class":
            review = self.review()
            given, rows = review.assignments, np.flatnonzero(review.ids == number)
            ordered = rows[np.argsort(given.confidence[rows], kind="stable")].tolist()
            images = [(row, given.images[row], float(given.confidence[row])) for row in ordered]
            return Answer(json.dumps(images).encode(), "application/json")
        return NOT_FOUND

    def post(self, body: bytes) -> Answer:
        """Apply one edit to the classes as the page shows them."""
        try:
            posted = Posted.model_validate_json(body)
        except ValidationError:
            return Answer(b"This is not an edit.", status=HTTPStatus.BAD_REQUEST)
        try:
            review = self.review()
            if len(review.log) != posted.seen:
                changed = b"The classes were edited in the meantime. Reload the page."
                return Answer(changed, status=HTTPStatus.CONFLICT)
            APPLY[posted.verb](review, posted)
        except NewfoundError as error:
            return Answer(str(error).encode(), status=HTTPStatus.CONFLICT)
        return Answer(b"", status=HTTPStatus.NO_CONTENT)


def policy_of(text: str) -> str:
    """The policy of our page: it may run its own script, the last one, and ask this server."""
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    own = f"script-src 'sha256-{digest}'; connect-src 'self'; img-src 'self'; style-src 'unsafe-inline'"
    return f"{STRICT_POLICY}; {own}"


class Server(ThreadingHTTPServer):
    """Answers only requests with the secret part of the address, so that no other page can edit anything."""

    daemon_threads = True
    request_queue_size = MOST_WAITING

    def __init__(self, live: Live, port: int = 0) -> None:
        """Port 0 picks a free one."""
        self.live, self.secret = live, secrets.token_urlsafe(12)
        self.lock = Lock()
        self.picture_lock = Lock()
        """Pictures are made one at a time, since large ones take much memory; edits do not wait for them."""
        self.waiting: dict[object, None] = {}
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise UsageError(
                f"Cannot serve on port {port}: {reason_of(error)}. Choose another port."
            ) from None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.secret}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread. If too many connections wait, the oldest is closed for the owner's sake."""
        self.waiting[request] = None
        if len(self.waiting) > MOST_WAITING:
            oldest: Any = next(iter(self.waiting))
            self.waiting.pop(oldest)
            with suppress(OSError):
                oldest.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.waiting.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that closes the connection is not an error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server

    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer(posted=True)

    def _body(self) -> bytes:
        """The body of a request; empty if it is too long."""
        length = self.headers.get("Content-Length", "")
        fits = re.fullmatch(r"\d{1,9}", length, re.ASCII) and int(length) <= MOST_BYTES
        return self.rfile.read(int(length)) if fits else b""

    def _is_ours(self, secret: str) -> bool:
        """Whether the secret is right, and the request is addressed to this computer by our own page."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        local = re.fullmatch(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", host)
        own = origin is None or origin == f"http://{host}"
        return bool(local and own and secrets.compare_digest(secret.encode(), self.server.secret.encode()))

    def _answer(self, posted: bool = False) -> None:
        secret, slash, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not self._is_ours(secret) or not slash:
            self._send(NOT_FOUND)
            return
        self.server.waiting.pop(self.connection, None)
        live, body = self.server.live, self._body() if posted else b""
        with self.server.picture_lock if path.partition("/")[0] in PICTURES else self.server.lock:
            try:
                answer = live.get(path) if not posted else live.post(body) if path == "edit" else NOT_FOUND
            except Exception as error:  # the browser waits for an answer, whatever happens
                answer = Answer(str(error).encode(), status=HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.content)))
        self.send_header("Cache-Control", answer.caching)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", answer.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not logged."""
