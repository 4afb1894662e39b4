"""A page on which a person edits the classes of a run, served to this computer alone."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from newfound.core.errors import NewfoundError, UsageError
from newfound.experiment.call import call_of
from newfound.experiment.folder import Folder
from newfound.experiment.pile import Pile
from newfound.experiment.trust import Trust
from newfound.report.page import Chart, page
from newfound.report.shown import Shown
from newfound.report.thumbnails import thumbnail
from newfound.review.review import Review

HOST = "127.0.0.1"
MOST_BYTES = 2**20
"""Of an edit."""


@dataclass(frozen=True)
class Answer:
    """To a browser."""

    content: bytes
    kind: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


NOT_FOUND = Answer(b"there is nothing here", status=HTTPStatus.NOT_FOUND)


class Live:
    """The pages and edits of one run. The classes are read anew each time: others may edit them too."""

    def __init__(self, folder: Folder, pile: Pile) -> None:
        self.folder, self.pile = folder, pile
        self.chart = Chart.of(pile, Shown.of(pile, self.review()).assigned)

    def review(self) -> Review:
        return Review.open(self.folder.path)

    def get(self, path: str) -> Answer:
        """The page itself, a small picture, or the images of a class."""
        what, _, number = path.partition("/")
        if not path:
            return Answer(self._page().encode(), "text/html; charset=utf-8")
        if what == "image" and number.isdecimal() and int(number) < len(self.pile.images):
            return Answer(*thumbnail(self.pile.pixels(np.array([int(number)]))[0]))
        if what == "class" and number.isdecimal():
            return Answer(json.dumps(self._images(int(number))).encode(), "application/json")
        return NOT_FOUND

    def post(self, body: bytes) -> Answer:
        """Make one edit."""
        try:
            found = json.loads(body)
            EDITS[found.pop("verb")](self.review(), found)
        except NewfoundError as error:
            return Answer(str(error).encode(), status=HTTPStatus.CONFLICT)
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
            return Answer(b"an edit must be one of those that the page makes", status=HTTPStatus.BAD_REQUEST)
        return Answer(b"", status=HTTPStatus.NO_CONTENT)

    def _page(self) -> str:
        folder = self.folder
        return page(
            *(self.pile, self.review(), folder.read_results(), Trust.of(folder), call_of(folder)),
            live=self.chart,
        )

    def _images(self, key: int) -> list[Mapping[str, Any]]:
        """Of a class, the least sure first."""
        review = self.review()
        rows = np.flatnonzero(review.ids == key)
        rows = rows[np.argsort(review.assignments.confidence[rows], kind="stable")]
        return [{"row": row, "file": review.assignments.images[row]} for row in rows.tolist()]


def _merge(review: Review, edit: Mapping[str, Any]) -> None:
    review.merge(_text(edit["into"]), *map(_text, edit["others"]))


def _move(review: Review, edit: Mapping[str, Any]) -> None:
    rows = TypeAdapter(list[int]).validate_python(edit["rows"])
    images = review.assignments.images
    if any(not 0 <= row < len(images) for row in rows):
        raise ValueError("no such row")
    review.move(_text(edit["into"]), *(images[row] for row in rows))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


EDITS: Mapping[str, Callable[[Review, Mapping[str, Any]], object]] = {
    "rename": lambda review, edit: review.rename(TypeAdapter(dict[str, str]).validate_python(edit["names"])),
    "merge": _merge,
    "split": lambda review, edit: review.split(_text(edit["name"])),
    "move": _move,
    "undo": lambda review, edit: review.undo(),
}


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


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_GET(self) -> None:
        self._answer(self.server.live.get)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self._send(Answer(b"an edit must tell its length", status=HTTPStatus.BAD_REQUEST))
            return
        body = self.rfile.read(int(length))
        self._answer(lambda path: self.server.live.post(body) if path == "edit" else NOT_FOUND)

    def _answer(self, respond: Callable[[str], Answer]) -> None:
        _, secret, *path = self.path.partition("?")[0].split("/")
        if not secrets.compare_digest(secret.encode(), self.server.secret.encode()) or not path:
            self._send(NOT_FOUND)
            return
        with self.server.lock:
            try:
                answer = respond("/".join(path))
            except NewfoundError as error:
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
