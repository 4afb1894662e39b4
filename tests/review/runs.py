"""Finished runs, written from their records: nothing is trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newfound.core.files import write_record
from newfound.core.source import PileKind, Source
from newfound.run.folder import Folder
from newfound.run.models import Classes, Request, Results, Timing
from newfound.run.pile import Pile

RESULTS = Results(
    method="iic",
    recipe="default",
    benchmark="own",
    seed=3,
    config={},
    commit="abc",
    versions={"torch": "2"},
    hardware="CPU",
    timing={"discover": Timing(seconds=1234.0)},
    warnings=["one <is> odd"],
)


def write_run(
    path: Path,
    logits: NDArray[np.floating],
    known: Sequence[str] = ("ant", "bee"),
    images: Sequence[str] = (),
    *,
    features: NDArray[np.floating] | None = None,
    comparable: bool = True,
    kind: PileKind = "novel",
    source: Source | None = None,
    command: str | None = None,
    results: Results = RESULTS,
    unsorted: Sequence[bool] | None = None,
    ids: Sequence[int] | None = None,
    digests: Sequence[str] = (),
    labelled: Mapping[str, int] | None = None,
) -> Folder:
    """A finished run whose network gave joint logits (n, C) for its unlabelled images."""
    folder, count = Folder(path), len(logits)
    novel = [f"novel-{number}" for number in range(1, logits.shape[1] - len(known) + 1)]
    features = np.eye(count, 4) if features is None else features
    joint = logits.astype(np.float32)
    pile = Pile(
        *(joint[:, len(known) :].copy(), joint, features.astype(np.float16), comparable, kind),
        digests=digests,
        labelled=labelled or {},
    )
    assignments = pile.assignments(
        images or [f"{row}.png" for row in range(count)], None if unsorted is None else np.array(unsorted)
    )
    classes = Classes(known=list(known), novel=novel, ids=None if ids is None else list(ids))
    sizes = assignments.sizes(logits.shape[1])
    request = Request(newfound="0", method="iic", source=source or Source(), settings={}, command=command)
    found = {
        "classes": classes,
        "pile": kind,
        "cluster_sizes": sizes[len(known) :],
        "known_sizes": sizes[: len(known)] if any(sizes[: len(known)]) else None,
        "unsorted": int(assignments.unsorted.sum()),
    }
    write_record(folder.config, request)
    write_record(folder.results, results.model_copy(update=found))
    assignments.write(folder.assignments, classes)
    pile.write(folder.pile)
    return folder


def logits_of(clusters: Sequence[int], num_known: int = 2, confidence: float = 0.9) -> NDArray[np.floating]:
    """Logits (n, C) of images in these novel classes, each with the same confidence."""
    num_novel = max(clusters) + 1
    scores: NDArray[np.floating] = np.log((1 - confidence) / max(num_novel - 1, 1)) * np.ones(
        (len(clusters), num_known + num_novel)
    )
    scores[np.arange(len(clusters)), num_known + np.array(clusters)] = np.log(confidence)
    return scores
