"""The source of the next run: what a review has settled is labelled, and the rest is the pile."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from newfound.core.errors import Hint, UsageError
from newfound.core.files import check_apart, check_writable, located
from newfound.core.source import PileKind, Source
from newfound.data.dataset import counted
from newfound.data.decode import digests_of
from newfound.data.files import MISSING, labelled_files, unlabelled_files
from newfound.data.folders import NO_CLASS, check_here
from newfound.data.members import is_there
from newfound.data.vectors import read_embeddings
from newfound.metrics.outliers import Flags
from newfound.review.edits import UNSORTED_ID
from newfound.review.review import Review
from newfound.run.folder import Folder
from newfound.run.pile import write_csv

log = logging.getLogger(__name__)
Only = Literal["unsorted"]
"""The images of a run that form the pile of the next one; all others are labelled with their classes."""


def next_source(
    review: Review,
    out: Folder,
    unlabelled: Path | str | None = None,
    num_novel: int | None = None,
    pile: PileKind | None = None,
    embeddings: str | None = None,
    only: Only | None = None,
) -> Source:
    """The source of a run in `out` that continues a reviewed one, whose images it lists in `out`/images.csv.

    Labelled images stay labelled, and those whose class the reviewer has settled are labelled too; with
    `only`, all that are in a class. Classes keep their ids. New images, `unlabelled` or as `embeddings`, join
    the pile; with `only`, those that have a class in a CSV do not, where embeddings may be listed too. A run
    that has begun in `out` keeps its list.
    """
    before = review.source
    check_here([str(unlabelled)] if unlabelled else [])
    if not before.labelled or before.held_out is not None:
        raise UsageError(f"{review.folder.path} is not a run on your own image files.")
    if before.embeddings and unlabelled and not (only and embeddings):
        raise UsageError(f"{review.folder.path} is a run on embeddings, which images cannot join.", Hint.JOIN)
    if embeddings and not before.embeddings:
        raise UsageError(f"{review.folder.path} is a run on images, which embeddings cannot join.")
    if out.config.exists():
        update = {"num_novel": num_novel, "estimated": None, "pile": pile}
        return out.request().source.model_copy(update=update)
    check_apart(out.path, before.labelled, before.unlabelled, str(unlabelled) if unlabelled else None)
    check_writable(out.images)
    settled = review.ids != UNSORTED_ID if only else review.settled
    new = unlabelled_files(unlabelled, "new") if unlabelled else []
    classes = {located(path): label if only else "" for path, label in new}
    listed = _listed(review, settled, Path(before.labelled), classes, embeddings)
    if lost := sorted({label for _, label in listed} & {*MISSING}):
        raise UsageError(f"{lost[0]!r} means no label in a list of images, so the class needs another name.")
    num_labelled = sum(bool(label) for _, label in listed)
    if only and num_labelled == len(listed):
        raise UsageError(f"{review.folder.path} has no unsorted images, and no new ones join it.")
    write_csv(out.images, ("path", "label"), listed)
    log.info(
        "%s: %s, %s of them from its review; %s in the pile",
        review.folder.path,
        counted(num_labelled, "labelled image"),
        f"{settled.sum():,}",
        f"{len(listed) - num_labelled:,}",
    )
    known = [*review.known, *review.ids[settled].tolist()]
    return Source(
        labelled=str(out.images),
        unlabelled=None if before.embeddings else str(out.images),
        embeddings=before.embeddings,
        more_embeddings=(*before.more_embeddings, *([located(embeddings)] if embeddings else [])),
        num_novel=num_novel,
        pile=pile,
        strict=before.strict,
        follows=str(review.folder.path.absolute()),
        class_ids={review.names[key]: key for key in known},
        next_id=max(before.next_id, review.next_id),
    )


def _listed(
    review: Review, settled: Flags, labelled: Path, classes: Mapping[str, str], embeddings: str | None
) -> list[tuple[str, str]]:
    """Path and label of every image: those labelled before, those of the run if `settled` (n,), and new ones.

    `classes` are new files, each with its class or "". Images are identified by their content: a new file may
    be one of the run's that has moved. Copies of its images do not join the pile, nor do files with a class.
    """
    listed = [(located(path), label) for path, label in labelled_files(labelled)[0]]
    before = [each for each in listed if each[1] not in NO_CLASS]
    images, pile, names = list(review.assignments.images), review.pile, review.names
    new = list(classes)
    digests = dict[str, str]()
    if pile.digests and not embeddings:
        digests = dict(zip(new, digests_of(new, strict=False)[0], strict=True))
    places = {digest: path for path, digest in digests.items()}
    if embeddings:
        vectors = read_embeddings(embeddings).vectors
        new, digests = list(vectors.names), dict(zip(vectors.names, vectors.contents(), strict=False))
    for row, path in enumerate(images):
        if places and not is_there(path):
            images[row] = places.get(pile.digests[row], path)
    if len(images) and not review.source.embeddings and not any(map(is_there, images)):
        raise UsageError(f"None of the images of {review.folder.path} is where it was.", Hint.RELOCATE)
    labels = [names[key] if sure else "" for key, sure in zip(review.ids.tolist(), settled, strict=True)]
    here = {*images, *(path for path, _ in before)}
    known = {*pile.digests, *pile.labelled}
    others = [path for path in new if path not in here]
    fresh = [path for path in others if digests.get(path) not in known]
    if copies := len(others) - len(fresh):
        log.info("%s left out: copies of images that the run has", counted(copies, "new image"))
    joining = [path for path in fresh if classes.get(path, "") in NO_CLASS]
    if in_class := len(fresh) - len(joining):
        log.info("%s left out: in a class already", counted(in_class, "new image"))
    return [
        *before,
        *zip(images, labels, strict=True),
        *((path, "") for path in joining),
    ]
