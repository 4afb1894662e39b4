"""Measure how well the number of novel classes is estimated on vectors, on random cuts.

    python -m benchmarks.number VECTORS 200 240 results/number/lite0.json

VECTORS is a folder with the vectors of the training images of CIFAR-10 and CIFAR-100, c10.npy and c100.npy,
and their labels, c10-labels.npy and c100-labels.npy. The numbers are the first seed and the one after the
last. Each seed draws the known and novel classes, their number and sizes at random; kinds of piles and long
tails take turns. The estimate is told that every pile may be mixed, as it is by default. It was developed
with seeds below 200 and with the cuts of `benchmarks.number_fit`.
"""

import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.record import Part
from newfound.core.files import read_record, write_record
from newfound.estimate.trial import EstimateConfig, Features
from newfound.run.estimation import ALGORITHMS
from newfound.run.models import Provenance, Versioned
from newfound.run.provenance import provenance

NOVEL = (5, 7, 10, 14, 20, 28, 38, 50)
"""Numbers of novel classes of CIFAR-100 to draw from."""
KNOWN = (10, 20, 30, 50)
"""Numbers of known classes of CIFAR-100 to draw from."""
EACH = (200, 350, 500)
"""Numbers of images of the largest class to draw from."""
TAILS = (1, 10, 50)
"""Ratios of the largest to the smallest class."""
Job = TypeVar("Job")
T = TypeVar("T")


class Cut(Part):
    """What was drawn for one cut, and the estimate for it."""

    seed: int
    data: str
    pile: str
    tail: int
    known: int
    novel: int
    each: int
    """Images of the largest class, half of them labelled if it is known."""
    found: int
    low: int
    high: int
    seconds: float


class Numbers(Versioned):
    """The record in results/number/*.json."""

    algorithm: str
    provenance: Provenance
    cuts: list[Cut]


def cut(folder: Path, seed: int) -> tuple[Features, dict[str, object]]:
    """The features of a random cut and what was drawn."""
    random = np.random.RandomState(9000 + seed)
    name = "c10" if seed // 6 % 4 == 3 else "c100"
    vectors, labels = (np.load(folder / f"{name}{end}.npy", mmap_mode="r") for end in ("", "-labels"))
    mixed, tail = bool(seed % 2), TAILS[seed // 2 % 3]
    novel, known = (5, 5) if name == "c10" else (int(random.choice(each)) for each in (NOVEL, KNOWN))
    each = int(random.choice(EACH))
    classes = random.permutation(np.unique(labels))[: known + novel]
    images = [random.permutation(np.flatnonzero(labels == c)) for c in classes]

    def sizes(number: int, largest: int) -> list[int]:
        return [round(largest * tail ** (-place / (number - 1))) for place in random.permutation(number)]

    labelled = [rows[: each // 2] for rows in images[:known]]
    pile = [rows[:size] for rows, size in zip(images[known:], sizes(novel, each), strict=True)]
    if mixed:
        pile += [rows[-size:] for rows, size in zip(images[:known], sizes(known, each // 2), strict=True)]
    ids = torch.from_numpy(np.repeat(np.arange(known), each // 2))
    features = Features(take(vectors, labelled), ids, take(vectors, pile), mixed=True)
    drawn = {"seed": seed, "data": name, "pile": "mixed" if mixed else "novel", "tail": tail}
    return features, drawn | {"known": known, "novel": novel, "each": each}


def take(vectors: NDArray[np.floating], rows: Sequence[NDArray[np.integer]]) -> torch.Tensor:
    """The vectors of some images."""
    return torch.from_numpy(vectors[np.concatenate(rows)]).float()


def summary(cuts: Sequence[Cut]) -> str:
    """Table cells: number of cuts, median error, share of ranges that hold the truth, median width."""
    error = median(abs(each.found / each.novel - 1) for each in cuts)
    covered = sum(each.low <= each.novel <= each.high for each in cuts) / len(cuts)
    width = median((each.high - each.low) / each.novel for each in cuts)
    return f"{len(cuts)} | {error:.0%} | {covered:.0%} | {width:.0%}"


def number_section(path: Path) -> str:
    """The table of a record as Markdown."""
    record = read_record(path, Numbers)
    lines = [
        "| pile | largest to smallest class | cuts | median error | truth in the range | median width |",
        "|---|---|---|---|---|---|",
    ]
    for pile in ("novel", "mixed"):
        for tail in TAILS:
            if found := [each for each in record.cuts if (each.pile, each.tail) == (pile, tail)]:
                lines.append(f"| {pile} | {tail} : 1 | {summary(found)} |")
    seconds = median(each.seconds for each in record.cuts)
    where = f"seeds {record.cuts[0].seed} to {record.cuts[-1].seed}, median {seconds:.0f} s"
    for data in sorted({each.data for each in record.cuts}):
        found = [each for each in record.cuts if each.data == data]
        lines.append(f"| all of CIFAR-{data.removeprefix('c')} | | {summary(found)} |")
    lines += [
        f"| all | | {summary(record.cuts)} |",
        "",
        f"`results/number/{path.name}`, {where} on {record.provenance.hardware}.",
    ]
    return "\n".join(lines)


def in_parallel(function: Callable[[Job], T], jobs: Sequence[Job]) -> list[T]:
    """The results of a function for all jobs, computed in processes of one thread each."""
    with get_context("spawn").Pool(initializer=torch.set_num_threads, initargs=(1,)) as pool:
        found = []
        for each in pool.imap(function, jobs):
            found.append(each)
            print(each, flush=True)
        return found


def _estimated(job: tuple[Path, int]) -> Cut:
    features, drawn = cut(*job)
    algorithm, random = ALGORITHMS["silhouette"], torch.Generator().manual_seed(job[1])
    start = time.perf_counter()
    found = algorithm.verdict(list(algorithm.trials(features, EstimateConfig(), random, {})))
    answer = {"found": found.num_novel, "low": found.low, "high": found.high}
    return Cut.model_validate(drawn | answer | {"seconds": time.perf_counter() - start})


def main(arguments: Sequence[str]) -> None:
    """Estimate the number for every cut, and write the record."""
    jobs = [(Path(arguments[0]), seed) for seed in range(int(arguments[1]), int(arguments[2]))]
    cuts, out = in_parallel(_estimated, jobs), Path(arguments[3])
    record = Numbers(algorithm="silhouette", provenance=provenance(torch.device("cpu")), cuts=cuts)
    write_record(out, record)
    print(number_section(out))


if __name__ == "__main__":
    main(sys.argv[1:])
