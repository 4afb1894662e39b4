"""Named benchmarks: which classes of which data set are to be discovered."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from newfound.core.errors import DataError, unknown
from newfound.data import cifar, digits, imagenet
from newfound.data.assemble import contents
from newfound.data.augment.recipes import NORMALISATION
from newfound.data.cifar import CIFAR10, CIFAR100
from newfound.data.corpus import Corpus, cut
from newfound.data.images import Dataset, Kind, Look
from newfound.data.subsets import check_subset

FamilyName = Literal["digits", "cifar10", "cifar100", "imagenet"]


@dataclass(frozen=True)
class Benchmark:
    """A cut of a data set: what is neither novel nor unused is known."""

    name: str
    family: FamilyName
    num_known: int
    novel: tuple[str, ...]
    unused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """A data set that benchmarks cut: how its images are read and treated."""

    read: Callable[[Path | None], Corpus]
    side: int
    stored: int
    kind: Kind
    needs: str


@dataclass(frozen=True)
class Summary:
    """A line of the list of benchmarks."""

    name: str
    known: str
    novel: str
    needs: str


FAMILIES: dict[FamilyName, Family] = {
    "digits": Family(digits.digits_corpus, 8, 8, "digits", "nothing"),
    "cifar10": Family(partial(cifar.cifar_corpus, "cifar10"), 32, 32, "cifar", cifar.archives("cifar10")),
    "cifar100": Family(partial(cifar.cifar_corpus, "cifar100"), 32, 32, "cifar", cifar.archives("cifar100")),
    "imagenet": Family(imagenet.imagenet_corpus, imagenet.SIDE, imagenet.STORED, "imagenet", imagenet.LAYOUT),
}
BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("digits", "digits", 5, digits.NAMES[5:]),
        Benchmark("cifar10", "cifar10", 5, CIFAR10[5:]),
        Benchmark("cifar100-20", "cifar100", 80, CIFAR100[80:]),
        Benchmark("cifar100-50", "cifar100", 50, CIFAR100[50:]),
        Benchmark("cifar100-80-10", "cifar100", 80, CIFAR100[90:], unused=CIFAR100[80:90]),
        *(
            Benchmark(f"imagenet-30-{letter}", "imagenet", 882, novel, imagenet.POOL)
            for letter, novel in imagenet.SUBSETS.items()
        ),
    )
}


def load_benchmark(name: str, data_dir: str | Path | None = None, subset: int | None = None) -> Dataset:
    """The benchmark called `name` from the files under `data_dir`, with `subset` images of each class."""
    check_subset(subset)
    folder = Path(data_dir) if data_dir else None
    origin = {
        "benchmark": name,
        "data_dir": str(data_dir) if data_dir else None,
        "subset": subset and int(subset),
    }
    return replace(load_declared(declaration(name), folder, subset), origin=origin)


def benchmark_names() -> list[str]:
    """The listed names; `cifar100-K` has many more."""
    return list(BENCHMARKS)


def describe_benchmarks() -> list[Summary]:
    """Every benchmark with its numbers of classes and the files it needs."""
    listed = [
        Summary(each.name, str(each.num_known), str(len(each.novel)), FAMILIES[each.family].needs)
        for each in BENCHMARKS.values()
    ]
    return [*listed, Summary("cifar100-K", "100 - K", "K", FAMILIES["cifar100"].needs)]


def declaration(name: str) -> Benchmark:
    """The benchmark called `name`; `cifar100-K` discovers the last K classes, for any K from 1 to 99."""
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    match = re.fullmatch(r"cifar100-([1-9]\d?)", name)
    if match is None:
        raise unknown(
            "benchmark", name, BENCHMARKS, "newfound data lists all; cifar100-K takes K from 1 to 99"
        )
    K = int(match[1])
    return Benchmark(name, "cifar100", 100 - K, CIFAR100[-K:])


def load_declared(benchmark: Benchmark, data_dir: Path | None, subset: int | None) -> Dataset:
    """The data set that `benchmark` declares."""
    family = FAMILIES[benchmark.family]
    corpus = family.read(data_dir)
    known, novel = _classes(benchmark, corpus)
    mean, std = NORMALISATION[benchmark.family]
    look = Look(family.side, family.kind, mean, std, family.stored)
    split, truth = cut(corpus, known, novel, look, subset)
    note = f"{benchmark.name}: {contents(split, truth)}"
    if subset is not None:
        note += f", at most {subset} of each class"
    return Dataset(benchmark.name, split, truth, (*known, *novel), (), note)


def _classes(benchmark: Benchmark, corpus: Corpus) -> tuple[list[str], list[str]]:
    """Known and novel classes, each in the order of the corpus."""
    hidden = {*benchmark.novel, *benchmark.unused}
    known = [name for name in corpus.classes if name not in hidden]
    novel = [name for name in corpus.classes if name in benchmark.novel]
    wanted = (benchmark.num_known, len(benchmark.novel))
    if (len(known), len(novel)) != wanted:
        raise DataError(
            f"{benchmark.name} must have {wanted[0]} known and {wanted[1]} novel classes; got {len(known)} "
            f"and {len(novel)}; unpack all of {FAMILIES[benchmark.family].needs}"
        )
    return known, novel
