"""Measure how well methods sort piles of vectors: pure and mixed, of equal and of unequal classes.

    python -m benchmarks.piles c100.npy c100-labels.npy 3 results/piles.json [METHOD ...]

The number is that of seeds. Each seed draws known and novel classes and their images. `centroids` is told
that every pile may be mixed; the other methods are told which kind it is.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

import newfound
from benchmarks.record import Part
from newfound.core.files import read_record, write_record
from newfound.core.records import Task
from newfound.core.source import PileKind
from newfound.data.vectors import from_embeddings
from newfound.metrics.protocols import generalised
from newfound.run.folder import Folder
from newfound.run.models import Provenance, Versioned
from newfound.run.pile import Assignments
from newfound.run.provenance import provenance

KNOWN = 20
NOVEL = 10
LABELLED = 50
"""Labelled images of each known class."""
LARGEST = 100
"""Unlabelled images of the largest class."""
RATIOS = (1, 10, 50)
"""Ratios of the largest to the smallest class."""
TOLD = "centroids, --pile novel"
"""The row of `centroids` on pure piles that it is told are pure."""
METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "k-means": ("kmeans", {}),
    "gcd": ("gcd", {}),
    "simgcd": ("simgcd", {}),
    "uno-v2": ("uno-v2", {}),
    "uno-v2, prior=learned": ("uno-v2", {"prior": "learned"}),
    "iic": ("iic", {}),
    "iic, prior=learned": ("iic", {"prior": "learned"}),
    "centroids, prior=equal": ("centroids", {"prior": "equal"}),
    "centroids, prior=learned": ("centroids", {"prior": "learned"}),
    "centroids": ("centroids", {}),
    TOLD: ("centroids", {}),
}
Drawn = tuple[NDArray[np.floating], NDArray[np.integer], NDArray[np.integer]]
"""Vectors (n, D), labels (n,) with -1 for unlabelled ones, and the true classes of the unlabelled ones."""


class Sorted(Part):
    """The result of one method on one pile; accuracies are under one matching of all classes."""

    method: str
    pile: PileKind
    ratio: int
    seed: int
    all: float
    novel: float
    known: float | None = None
    """None for a pure pile."""
    recognised: float | None = None
    """The share of the known images that are assigned to known classes."""
    seconds: float


class Piles(Versioned):
    """The record in results/piles.json."""

    provenance: Provenance
    runs: list[Sorted]


def draw(
    vectors: NDArray[np.floating], labels: NDArray[np.integer], pile: PileKind, ratio: int, seed: int
) -> Drawn:
    """Draw a random cut."""
    random = np.random.RandomState(11000 + seed)
    classes = random.permutation(np.unique(labels))[: KNOWN + NOVEL]
    sizes = [round(LARGEST * ratio ** (-i / (n - 1))) for n in (KNOWN, NOVEL) for i in random.permutation(n)]
    given, found, truth = [], [], []
    for c, (label, size) in enumerate(zip(classes, sizes, strict=True)):
        rows = random.permutation(np.flatnonzero(labels == label))
        if c < KNOWN:
            given.append(rows[:LABELLED])
        if c >= KNOWN or pile == "mixed":
            found.append(rows[-size:])
            truth.append(np.full(size, c))
    shown = np.concatenate(
        [np.repeat(np.arange(KNOWN), LABELLED), *(np.full(len(each), -1) for each in found)]
    )
    return vectors[np.concatenate([*given, *found])].astype(np.float32), shown, np.concatenate(truth)


def run(name: str, drawn: Drawn, pile: PileKind, ratio: int, seed: int) -> Sorted:
    """Let a method sort a pile."""
    method, settings = METHODS[name]
    vectors, labels, truth = drawn
    said: PileKind = "mixed" if method == "centroids" and name != TOLD else pile
    data = from_embeddings(vectors, labels, NOVEL, pile=said)
    start = time.perf_counter()
    with TemporaryDirectory() as folder:
        results = newfound.discover(method, data, folder, verbose=False, seed=seed, **settings)
        assert results.classes is not None
        ids = torch.from_numpy(Assignments.read(Folder(Path(folder)).assignments, results.classes).ids)
    scores, task = F.one_hot(ids, KNOWN + NOVEL).float()[None], Task(KNOWN, NOVEL)
    found = generalised(scores, torch.from_numpy(truth), task)[0]
    return Sorted(
        method=name,
        pile=pile,
        ratio=ratio,
        seed=seed,
        all=found.all,
        known=found.known if pile == "mixed" else None,
        novel=found.novel,
        recognised=found.recognised if pile == "mixed" else None,
        seconds=time.perf_counter() - start,
    )


def piles_section(path: Path) -> str:
    """The table of a record as Markdown; for mixed piles all / known / novel (known images recognised)."""
    record = read_record(path, Piles)
    kinds: list[tuple[PileKind, int]] = [(pile, ratio) for pile in ("novel", "mixed") for ratio in RATIOS]
    titles = [f"{'pure' if pile == 'novel' else 'mixed'}, {ratio} : 1" for pile, ratio in kinds]
    lines = [f"| | {' | '.join(titles)} | s |", "|---|" + "---|" * (len(kinds) + 1)]
    for name in METHODS:
        cells = []
        for pile, ratio in kinds:
            found = [
                each for each in record.runs if (each.method, each.pile, each.ratio) == (name, pile, ratio)
            ]
            parts = [[each.all for each in found]]
            if pile == "mixed":
                parts += [[each.known or 0.0 for each in found], [each.novel for each in found]]
            cells.append(" / ".join(f"{100 * fmean(part):.1f}" for part in parts if part))
            if recognised := [each.recognised for each in found if each.recognised is not None]:
                cells[-1] += f" ({100 * fmean(recognised):.0f})"
        if any(cells):
            seconds = fmean(each.seconds for each in record.runs if each.method == name)
            lines.append(f"| {name} | {' | '.join(cells)} | {seconds:.0f} |")
    seeds = len({each.seed for each in record.runs})
    return "\n".join([*lines, "", f"`results/{path.name}`, {seeds} seeds, on {record.provenance.hardware}."])


def main(arguments: Sequence[str]) -> None:
    """Run every method on every pile, write the record after each run, and skip what it already has."""
    vectors, labels = (np.load(each, mmap_mode="r") for each in arguments[:2])
    out, runs = Path(arguments[3]), list[Sorted]()
    if out.exists():
        runs = read_record(out, Piles).runs
    done = {(each.method, each.pile, each.ratio, each.seed) for each in runs}
    for seed in range(int(arguments[2])):
        for pile in ("novel", "mixed"):
            for ratio in RATIOS:
                drawn = draw(vectors, np.asarray(labels), pile, ratio, seed)
                for name in arguments[4:] or METHODS:
                    if (name, pile) != (TOLD, "mixed") and (name, pile, ratio, seed) not in done:
                        runs.append(run(name, drawn, pile, ratio, seed))
                        write_record(out, Piles(provenance=provenance(torch.device("cpu")), runs=runs))
                        print(runs[-1], flush=True)
    print(piles_section(out))


if __name__ == "__main__":
    main(sys.argv[1:])
