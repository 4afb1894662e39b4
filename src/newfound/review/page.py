"""The page of a run: its classes with images, and a map, in one HTML file that loads nothing else.

Shapes: n unlabelled images, C classes after the edits, the known ones first.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import NamedTuple

import jinja2
import numpy as np

from newfound.core.files import check_writable, write_text
from newfound.metrics.outliers import Floats, Ints
from newfound.report.figures import check_replaceable
from newfound.report.maps import MOST_POINTS, UNSORTED_MARK, Pictures, embed, mark, stratified
from newfound.review.edits import UNSORTED_ID
from newfound.review.replay import by_rows, shares_after
from newfound.review.review import Review
from newfound.run.models import Results, Trust

SHOWN = 10
"""At most this many of the most confident images of a class, and of the least confident ones."""
QUEUE = 30
"""At most this many images in each list of those to review first."""
THUMBNAIL = 160
"""The longest side of a small picture, in pixels."""
MOST_PIXELS = 32_000_000
"""The most pixels of all pictures in a page, about 10 MB of photographs; more pictures are smaller."""
FEWEST_FOR_TRUST = 4
"""The fewest known classes for `trust`: two are hidden, two stay."""
GENERATOR = '<meta name="generator" content="newfound">'
"""Identifies pages of newfound."""


class Similar(NamedTuple):
    """A similar class, and its mean probability over the images of the class it is compared with."""

    name: str
    share: float


@dataclass(frozen=True)
class Card:
    """A class as the page shows it; its images are given as rows."""

    name: str
    place: int
    """Its index among the names."""
    size: int
    confidence: float
    """The mean over its images."""
    central: Ints
    """The most confident images, the first one most so."""
    doubtful: Ints
    """The least confident images, the first one least so; none of them is central."""
    known: Similar
    """The most similar known class."""
    novel: Similar | None
    """The most similar other novel class, which may really be the same class."""


class Snapshot:
    """A run as its review stands: its predictions in the edited classes, and the images to review first."""

    def __init__(self, review: Review) -> None:
        pile = review.pile
        self.ids, self.names = list(review.listed), list(review.listed.values())
        self.num_known = known = len(review.known)
        self.num_classes = len(self.ids) - 1
        """The number of classes, without the unsorted group, which is last."""
        count = len(pile.novel)
        none = np.zeros((count, known), dtype=pile.novel.dtype)
        novel, joint = (
            shares_after(review.edits, shares, review.found, by_rows(count))
            for shares in (np.concatenate([none, pile.novel], axis=1), pile.joint)
        )
        self.novel = np.stack([novel[key] for key in self.ids[known:]], axis=1)
        """(n, C - C_l) probabilities among the novel classes, without those merged into known ones."""
        self.joint = np.stack([joint[key] for key in self.ids], axis=1)
        """(n, C) probabilities among all classes."""
        places = {key: place for place, key in enumerate(self.ids)}
        self.assigned: Ints = np.array([places[key] for key in review.ids.tolist()], dtype=np.int64)
        """(n,) class of each image, as an index of `names`."""
        self.confidence: Floats = pile.shares[np.arange(count), review.assignments.ids]
        """(n,) confidence of the model in the class that it assigned; 1 for a copy of a labelled image."""
        self.confidence[[row for row, each in enumerate(pile.digests) if each in pile.labelled]] = 1
        self.least_confident = np.argsort(self.confidence, kind="stable")
        """(n,) all images, the least confident first."""
        accepted = review.accepted
        waiting = self.least_confident[~accepted[self.least_confident]]
        unsorted = self.assigned[waiting] == self.num_classes
        self.queue = waiting[~unsorted][:QUEUE]
        """Images in classes, not yet accepted by a reviewer, the least confident first."""
        left_over = waiting[unsorted & (review.found_ids[waiting] == UNSORTED_ID)]
        self.left_over = left_over[::-1][:QUEUE]
        """Images that the run left unsorted, the most similar to a class first."""
        self.open_known = int((~review.settled & (self.assigned < known)).sum())
        """The number of images in known classes that are not yet accepted."""
        self.classes = [self._card(index) for index in range(known, self.num_classes)]
        self.unsorted = self._card(self.num_classes)
        self.known = [self._card(index) for index in np.unique(self.assigned) if index < known]
        """Known classes that have images."""

    def shown(self, chart: "Chart") -> list[int]:
        """The rows of all images on the page."""
        cards = (*self.classes, *self.known, self.unsorted)
        in_cards = [rows for each in cards for rows in (each.central, each.doubtful)]
        rows: list[int] = np.unique(
            np.concatenate([chart.rows, self.queue, self.left_over, *in_cards])
        ).tolist()
        return rows

    def script_classes(self, review: Review) -> list[dict[str, object]]:
        """(C,) the classes for the scripts of the page. A class keeps its mark, whatever is edited."""
        novel = [key for key in review.found if key not in review.known]
        marks = {key: mark(len(novel) + place, known=True) for place, key in enumerate(review.known)}
        marks |= {key: mark(key - novel[0], known=False) for key in self.ids if review.kind(key) == "novel"}
        marks[self.ids[-1]] = UNSORTED_MARK
        sizes = np.bincount(self.assigned, minlength=len(self.ids)).tolist()
        return [
            {"id": key, "name": name, "kind": review.kind(key), "size": size, "mark": marks[key]}
            for key, name, size in zip(self.ids, self.names, sizes, strict=True)
        ]

    def _card(self, index: int) -> Card:
        """The card of a class, given by its index among the names."""
        rows = self.least_confident[self.assigned[self.least_confident] == index]
        central = rows[::-1][: min(SHOWN, -(-len(rows) // 2))]
        others = [place for place in range(self.num_known, self.num_classes) if place != index]
        novel = self.novel[rows][:, [place - self.num_known for place in others]]
        return Card(
            name=self.names[index],
            place=index,
            size=len(rows),
            confidence=float(self.confidence[rows].mean()) if len(rows) else 0.0,
            central=central,
            doubtful=rows[: min(SHOWN, len(rows) - len(central))],
            known=_most_similar(self.joint[rows, : self.num_known], self.names[: self.num_known]),
            novel=_most_similar(novel, [self.names[place] for place in others]) if others else None,
        )


def _most_similar(probabilities: Floats, names: Sequence[str]) -> Similar:
    """Probabilities (m, K) → the class with the highest mean; without images, the first class with 0."""
    means = probabilities.mean(0) if len(probabilities) else np.zeros(len(names))
    return Similar(names[int(means.argmax())], float(means.max()))


@dataclass(frozen=True)
class Chart:
    """The map: the rows of its images, and their places in the unit square."""

    rows: Ints
    places: Floats

    @classmethod
    def of(cls, review: Review) -> "Chart":
        """The map of a sample of the images, in the proportions of their classes."""
        rows = stratified(review.ids, MOST_POINTS)
        places = embed(review.pile.logits[rows])
        low, high = places.min(0), places.max(0)
        return cls(rows, (places - low) / np.maximum(high - low, 1e-9))


def check_page(path: Path) -> None:
    """Refuse to overwrite anything but one of our pages."""
    check_replaceable(path, GENERATOR)
    check_writable(path)


def write_page(review: Review, pictures: Pictures, out: Path | None = None) -> None:
    """Write the page of a finished run, with its pictures inside, to its folder or to `out`."""
    now, chart = Snapshot(review), Chart.of(review)
    rows = now.shown(chart)
    files = pictures(rows, min(THUMBNAIL, isqrt(MOST_PIXELS // len(rows))))
    embedded = {row: data_uri(file) for row, file in zip(rows, files, strict=True)}
    write_text(out or review.folder.report, _rendered(review, now, chart, embedded))


def live_page(review: Review, chart: Chart) -> str:
    """The page on which classes are edited, which requests its pictures from the server."""
    return _rendered(review, Snapshot(review), chart)


def media_type(picture: bytes) -> str:
    return "image/png" if picture.startswith(b"\x89PNG") else "image/jpeg"


def data_uri(picture: bytes) -> str:
    return f"data:{media_type(picture)};base64,{b64encode(picture).decode()}"


def _rendered(review: Review, now: Snapshot, chart: Chart, embedded: dict[int, str] | None = None) -> str:
    """The HTML of a run; without `embedded` pictures, a live page."""
    folder, results, trust = review.folder, review.results, review.folder.read_trust()
    images = review.assignments.images
    facts = {
        "live": embedded is None,
        "run": str(folder.path),
        "seen": len(review.log),
        "edits": len(review.edits),
        "classes": now.script_classes(review),
        "images": {
            row: (images[row], int(now.assigned[row]), round(float(now.confidence[row]), 4))
            for row in now.shown(chart)
        },
        "points": [
            (row, round(x, 4), round(y, 4))
            for row, (x, y) in zip(chart.rows.tolist(), chart.places.tolist(), strict=True)
        ],
        "pictures": embedded,
    }
    files = jinja2.FileSystemLoader(Path(__file__).parent)
    templates = jinja2.Environment(loader=files, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return templates.get_template("page.html").render(
        generator=GENERATOR,
        facts=facts,
        now=now,
        filled=sum(each.size > 0 for each in now.classes),
        comparable=review.pile.comparable,
        quoted=folder.quoted,
        source=review.source,
        can_trust=len(review.known) >= FEWEST_FOR_TRUST,
        results=results,
        trust=trust_lines(trust) if trust else [],
        confidence=confidence_line(results, trust),
        command=folder.request().command,
    )


def confidence_line(results: Results, trust: Trust | None = None) -> str:
    """What confidence means, and how far off it was, if that is known."""
    images = results.calibration.images
    line = "Confidence is the model's softmax probability; it is not calibrated."
    if images:
        line = (
            f"Confidence is calibrated on {images:,} images of known classes that training did not see: of "
            "those with a confidence of 80 %, about 80 % are in the right class. In new classes it may be "
            "further off."
        )
    if trust and trust.calibration_error is not None:
        error, trials = trust.calibration_error, "trials" if trust.accuracies else "trial"
        where = f"In the {trials} with hidden classes"
    elif results.calibration.error is not None:
        where, error = "On these images, whose true classes are known,", results.calibration.error
    else:
        return line
    return f"{line} {where} it was off by {100 * error:.1f} points on average (expected calibration error)."


def trust_lines(trust: Trust) -> list[str]:
    """The result of a trial in words: what was hidden, and how well it was found."""
    used, mean = _percent(trust.accuracy), _percent(trust.mean_accuracy)
    found = f"Hidden classes found: {used} of their {trust.images:,} images are in the right class"
    trials = trust.accuracies
    if trials and min(trials) < max(trials):
        found += f", {_percent(min(trials))} to {_percent(max(trials))} in single trials"
    if used != mean:
        found += f"; the mean over the heads is {mean}"
    if trust.largest_class is not None:
        found += f"; one class for all images would give {_percent(trust.largest_class)}"
    if trust.unsorted:
        found += (
            f"; {_percent(trust.unsorted)} of all images were left unsorted and count for the class that "
            "they are most like"
        )
    if trust.kmeans is not None:
        found += f"; k-means on the same vectors gives {_percent(trust.kmeans)}"
        if trust.accuracy <= trust.kmeans:
            found += ", which is better" if trust.accuracy < trust.kmeans else ", which is as good"
    hidden = ", ".join(trust.hidden)
    which = f", in {len(trials)} trials, the first of which hid {hidden}" if trials else f" ({hidden})"
    lines = [
        f"{len(trust.hidden)} known classes were hidden and discovered in the same way{which}.",
        f"{found}.",
    ]
    if trust.recognised is not None and trust.mistaken is not None:
        recognised, mistaken = _percent(trust.recognised), _percent(trust.mistaken)
        lines.insert(
            1,
            f"Known images recognised as known: {recognised} of {trust.known_images:,}; {mistaken} of the "
            "images of hidden classes were taken for known.",
        )
    if trust.numbers:
        found = ", ".join(
            f"{each.num_novel}" + f" ({each.low} to {each.high} plausible)" * (each.low != each.high)
            for each in trust.numbers
        )
        lines.append(f"Number of hidden classes: estimated {found}; true {len(trust.hidden)}.")
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
