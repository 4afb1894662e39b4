"""The source of a next run: what the review of a run has settled is labelled, and the rest is the pile."""

import logging
from collections.abc import Sequence
from pathlib import Path

from newfound.core.errors import UsageError
from newfound.core.files import check_apart, check_writable, located
from newfound.core.source import UNSORTED, PileKind, Source
from newfound.data.dataset import counted
from newfound.data.decode import digests_of
from newfound.data.files import MISSING, labelled_files, unlabelled_files
from newfound.data.members import is_there
from newfound.review.edits import Split
from newfound.review.review import Review
from newfound.run.assignments import write_csv
from newfound.run.folder import Folder

log = logging.getLogger(__name__)


def next_source(
    review: Review,
    out: Folder,
    unlabelled: Path | None = None,
    num_novel: int | None = None,
    pile: PileKind | None = None,
) -> Source:
    """List the images of a reviewed run in `out`/images.csv, and those that join them; they are the source.

    Labelled are those that were so before, and those whose class a person has settled. Classes keep their
    ids. A run that has begun in `out` keeps its list.
    """
    before = review.source
    if not before.labelled or before.held_out is not None:
        raise UsageError(f"{review.folder.path} is not a run on your own image files.")
    if before.embeddings and unlabelled:
        raise UsageError(f"{review.folder.path} is a run on embeddings: new images cannot join it.")
    if out.config.exists():
        update = {"num_novel": num_novel, "estimated": None, "pile": pile}
        return out.request().source.model_copy(update=update)
    check_apart(out.path, before.labelled, before.unlabelled, str(unlabelled) if unlabelled else None)
    check_writable(out.images)
    labelled = [file for file in labelled_files(Path(before.labelled))[0] if file[1] not in ("", UNSORTED)]
    new = [located(path) for path, _ in unlabelled_files(unlabelled, "new")] if unlabelled else []
    images, ids, settled = _where_they_are(review, new), review.ids.tolist(), review.settled.tolist()
    labels = [review.names[key] if sure else "" for key, sure in zip(ids, settled, strict=True)]
    listed = [(located(path), label) for path, label in labelled]
    listed += zip(images, labels, strict=True)
    here = {*images}
    listed += [(path, "") for path in new if path not in here]
    if lost := sorted({label for _, label in listed} & {*MISSING}):
        raise UsageError(f"In a list of images {lost[0]!r} means no label: the class needs another name.")
    write_csv(out.images, ("path", "label"), listed)
    known = {review.names[key]: key for key in review.known}
    known |= {review.names[key]: key for key, sure in zip(ids, settled, strict=True) if sure}
    parts = [part.id for edit in review.log if isinstance(edit, Split) for part in edit.parts]
    log.info(
        "%s: %s, %s of them from its review; %s in the pile",
        *(review.folder.path, counted(len(labelled) + sum(settled), "labelled image"), f"{sum(settled):,}"),
        f"{sum(not label for _, label in listed):,}",
    )
    return Source(
        labelled=str(out.images),
        unlabelled=None if before.embeddings else str(out.images),
        embeddings=before.embeddings,
        num_novel=num_novel,
        pile=pile,
        strict=before.strict,
        follows=str(review.folder.path.absolute()),
        class_ids=known,
        next_id=max([before.next_id, *(key + 1 for key in (*review.found, *parts))]),
    )


def _where_they_are(review: Review, new: Sequence[str]) -> list[str]:
    """(n,) the paths of a run's images; those that are gone are looked for among the `new` ones."""
    images, digests = list(review.assignments.images), review.pile.digests
    gone = [row for row, path in enumerate(images) if not is_there(path)] if new and digests else []
    places = dict(zip(digests_of(new, strict=False)[0], new, strict=True)) if gone else {}
    for row in gone:
        images[row] = places.get(digests[row], images[row])
    return images
