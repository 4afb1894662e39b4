"""A page on which a person edits the classes of a run: what it asks for, and what it is answered."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from newfound.core.errors import NewfoundError
from newfound.experiment.call import call_of
from newfound.experiment.folder import Folder
from newfound.experiment.pile import Pile
from newfound.experiment.trust import Trust
from newfound.report.page import Chart, page
from newfound.report.shown import Shown
from newfound.report.thumbnails import thumbnail
from newfound.review.review import Review


@dataclass(frozen=True)
class Answer:
    """To a browser."""

    content: bytes
    kind: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


REFUSED = HTTPStatus.CONFLICT
NOT_FOUND = Answer(b"there is nothing here", status=HTTPStatus.NOT_FOUND)


Edit = Callable[[Review], object]
"""What a page asks for. The arguments of the functions below are the fields that it sends."""


def _rename(names: dict[str, str]) -> Edit:
    return lambda review: review.rename(names)


def _merge(into: str, others: list[str]) -> Edit:
    return lambda review: review.merge(into, *others)


def _split(name: str) -> Edit:
    return lambda review: review.split(name)


def _move(into: str, rows: list[int]) -> Edit:
    return lambda review: review.move_rows(into, rows)


def _undo() -> Edit:
    return lambda review: review.undo()


VERBS: Mapping[str, Callable[..., Edit]] = {
    "rename": _rename,
    "merge": _merge,
    "split": _split,
    "move": _move,
    "undo": _undo,
}


class Live:
    """The pages and edits of one run. The classes are read anew each time: others may edit them too."""

    def __init__(self, folder: Folder, pile: Pile, data_dir: str | None = None) -> None:
        self.folder, self.pile, self.data_dir = folder, pile, data_dir
        self.chart = Chart.of(pile, Shown.of(pile, self.review()).assigned)

    def review(self) -> Review:
        return Review.open(self.folder.path, self.data_dir)

    def get(self, path: str) -> Answer:
        """The page itself, a small picture, or the images of a class."""
        if not path:
            return Answer(self._page().encode(), "text/html; charset=utf-8")
        found = re.fullmatch(r"(image|class)/(\d{1,9})", path, re.ASCII)
        what, number = (found[1], int(found[2])) if found else ("", 0)
        if what == "image" and number < len(self.pile.images):
            return Answer(*thumbnail(self.pile.pixels(np.array([number]))[0]))
        if what == "class":
            return Answer(json.dumps(self._images(number)).encode(), "application/json")
        return NOT_FOUND

    def post(self, body: bytes) -> Answer:
        """Make one edit of the classes as the page shows them."""
        try:
            fields = json.loads(body)
            verb, seen = VERBS[fields.pop("verb")], fields.pop("seen")
            edit: Edit = TypeAdapter(verb).validate_json(json.dumps(fields), strict=True)  # type: ignore[arg-type]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return Answer(b"an edit must be one of those that the page makes", status=HTTPStatus.BAD_REQUEST)
        try:
            review = self.review()
            if len(review.log) != seen:
                return Answer(b"somebody has edited the classes since; load the page anew", status=REFUSED)
            edit(review)
        except NewfoundError as error:
            return Answer(str(error).encode(), status=REFUSED)
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
