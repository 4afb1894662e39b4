"""Named benchmarks: which classes of which data set are to be discovered."""

import re
from collections.abc import Iterator
from dataclasses import replace

from newfound.core.calls import public
from newfound.core.errors import Hint, unknown
from newfound.core.files import AnyPath
from newfound.core.registry import DATASETS
from newfound.core.settings import Positive
from newfound.data.benchmarks import cifar, digits, imagenet  # noqa: F401 (registers them)
from newfound.data.benchmarks.family import Benchmark, Corpus, Family, Part
from newfound.data.dataset import Dataset

__all__ = ["Benchmark", "Corpus", "Family", "Part"]


@public
def load_benchmark(name: str, data_dir: AnyPath | None = None, subset: Positive | None = None) -> Dataset:
    """The benchmark `name` from the official files in `data_dir`; at most `subset` images of each class."""
    family, benchmark = find_benchmark(name)
    return family.load(benchmark, data_dir, subset)


MIXED = "-mixed"
"""The suffix of benchmarks with a mixed pile, as in GCD."""
SHOTS = re.compile(r"(.+)-([1-9]\d*)shot")
"""The name of a benchmark with this number of labelled images of each known class."""


def benchmark_names() -> list[str]:
    """The named benchmarks, each of which also exists as `NAME-mixed` and `NAME-Nshot`.

    There is `cifar100-K` for every K up to 99.
    """
    return [benchmark.name for _, family in families() for benchmark in family.benchmarks]


def find_benchmark(name: str) -> tuple[Family, Benchmark]:
    """The benchmark `name` and its data set."""
    if name.endswith(MIXED):
        family, benchmark = find_benchmark(name.removesuffix(MIXED))
        return family, replace(benchmark, name=name, pile="mixed")
    if few := SHOTS.fullmatch(name):
        family, benchmark = find_benchmark(few[1])
        return family, replace(benchmark, name=name, shots=int(few[2]))
    for data_set, family in families():
        for benchmark in family.benchmarks:
            if benchmark.name == name:
                return family, benchmark
        known, match = len(family.classes), re.fullmatch(rf"{re.escape(data_set)}-([1-9]\d*)", name)
        if match and (K := int(match[1])) < known:
            return family, Benchmark(name, known - K, family.classes[-K:])
    raise unknown("benchmark", name, benchmark_names(), Hint.BENCHMARKS)


def families() -> Iterator[tuple[str, Family]]:
    """The data sets and their names."""
    for name in DATASETS.names():
        yield name, DATASETS.get(name)()
