"""The named benchmarks on tiny copies of their files."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.datasets import load_digits

from newfound.cli.lists import benchmark_rows
from newfound.core.errors import DataError, UsageError
from newfound.core.registry import DATASETS
from newfound.core.source import Source
from newfound.data.augment.recipes import NORMALISATION
from newfound.data.benchmarks import (
    Benchmark,
    Corpus,
    Family,
    Part,
    benchmark_names,
    find_benchmark,
    load_benchmark,
)
from newfound.data.benchmarks.cifar import CIFAR10, CIFAR100
from newfound.data.dataset import Dataset, Look, Truth
from newfound.data.images import ResidentImages
from tests.data.conftest import Fake, random_images

Row = tuple[npt.NDArray[np.float64], int]
PLAIN = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)


def _truth(dataset: Dataset) -> Truth:
    assert dataset.truth is not None
    return dataset.truth


def _pixels(images: object) -> torch.Tensor:
    assert isinstance(images, ResidentImages)
    return images.pixels


def test_digits_against_scikit_learn_by_loops() -> None:
    dataset, source = load_benchmark("digits"), load_digits()
    labelled: list[Row] = []
    unlabelled: list[Row] = []
    for_test: list[Row] = []
    seen = [0] * 10
    for image, label in zip(source.images, source.target, strict=True):
        seen[label] += 1
        if seen[label] % 5 == 0:
            for_test.append((image, label))
        else:
            (labelled if label < 5 else unlabelled).append((image, label))
    truth = _truth(dataset)
    for rows, images, labels in (
        (labelled, dataset.split.labelled, dataset.split.labels),
        (unlabelled, dataset.split.unlabelled, truth.labels),
        (for_test, truth.test, truth.test_labels),
    ):
        assert labels.tolist() == [label for _, label in rows]
        grey = np.rint(np.array([image for image, _ in rows]) / 16 * 255)
        for channel in range(3):
            assert np.array_equal(_pixels(images)[:, channel].numpy(), grey)
    assert dataset.class_names == tuple("0123456789")
    assert (dataset.split.look.kind, dataset.split.look.size) == ("digits", 8)


def test_a_mixed_pile_takes_every_second_image_of_the_known_classes() -> None:
    pure, mixed = (load_benchmark(name, subset=7) for name in ("digits", "digits-mixed"))
    labelled: list[tuple[str, int]] = []
    pile: list[tuple[str, int]] = []
    seen = [0] * 5
    every = zip(pure.split.labelled.names, pure.split.labels.tolist(), strict=True)
    for name, label in every:
        seen[label] += 1
        (labelled if seen[label] % 2 else pile).append((name, label))
    pile += zip(pure.split.unlabelled.names, _truth(pure).labels.tolist(), strict=True)
    split, truth = mixed.split, _truth(mixed)
    assert list(zip(split.labelled.names, split.labels.tolist(), strict=True)) == labelled
    assert sorted(zip(split.unlabelled.names, truth.labels.tolist(), strict=True)) == sorted(pile)
    assert (split.task.pile, pure.split.task.pile) == ("mixed", "novel")
    assert list(truth.test.names) == list(_truth(pure).test.names)
    assert "unlabelled images of known classes and 5 novel classes" in mixed.note


def test_few_shots_keep_the_first_images_of_each_known_class_and_the_whole_pile() -> None:
    every, few = (load_benchmark(name, subset=7) for name in ("digits", "digits-3shot"))
    kept, seen = [], [0] * 5
    for name, label in zip(every.split.labelled.names, every.split.labels.tolist(), strict=True):
        seen[label] += 1
        if seen[label] <= 3:
            kept.append((name, label))
    assert list(zip(few.split.labelled.names, few.split.labels.tolist(), strict=True)) == kept
    assert list(few.split.unlabelled.names) == list(every.split.unlabelled.names)
    assert _truth(few).labels.tolist() == _truth(every).labels.tolist()
    assert list(_truth(few).test.names) == list(_truth(every).test.names)


def test_cifar10_by_loops(tmp_path: Path, fake_binary: Fake) -> None:
    pixels, classes = fake_binary(tmp_path, "cifar10", 2)
    dataset = load_benchmark("cifar10", tmp_path)
    split, truth = dataset.split, _truth(dataset)
    known = [row for row, label in enumerate(classes) if label < 5]
    novel = [row for row, label in enumerate(classes) if label >= 5]
    assert np.array_equal(_pixels(split.labelled).numpy(), pixels[known].reshape(-1, 3, 32, 32))
    assert np.array_equal(_pixels(split.unlabelled).numpy(), pixels[novel].reshape(-1, 3, 32, 32))
    assert split.labels.tolist() == classes[known].tolist()
    assert truth.labels.tolist() == classes[novel].tolist()
    assert truth.test_labels.bincount().tolist() == [2] * 10
    assert dataset.class_names == CIFAR10
    assert (split.task.num_known, split.task.num_novel) == (5, 5)
    assert (split.look.mean, split.look.std) == NORMALISATION["cifar10"]
    assert list(split.labelled.names) == [f"cifar10/train/{row}" for row in known]
    by_text = load_benchmark("cifar10", str(tmp_path))
    assert by_text.fingerprint() == dataset.fingerprint()
    assert by_text.source == dataset.source == Source(benchmark="cifar10", data_dir=str(tmp_path))


def test_both_distributions_give_the_same_data_set(
    tmp_path: Path, fake_binary: Fake, fake_python: Fake
) -> None:
    fake_binary(tmp_path / "binary", "cifar100", 1)
    fake_python(tmp_path / "python", "cifar100", 1)
    binary, python = (load_benchmark("cifar100-50", tmp_path / kind) for kind in ("binary", "python"))
    assert binary.fingerprint() == python.fingerprint()


@pytest.mark.parametrize("K", [1, 20, 37, 50, 80, 99])
def test_any_number_of_the_last_classes_of_cifar100(K: int) -> None:
    _, declared = find_benchmark(f"cifar100-{K}")
    assert declared.novel == CIFAR100[100 - K :]
    assert (declared.num_known, declared.unused) == (100 - K, ())
    assert find_benchmark(f"cifar100-{K}-mixed")[1].pile == "mixed"


def test_cifar100_80_10_leaves_the_probe_classes_out(tmp_path: Path, fake_binary: Fake) -> None:
    fake_binary(tmp_path, "cifar100", 1)
    dataset = load_benchmark("cifar100-80-10", tmp_path)
    truth = _truth(dataset)
    assert dataset.class_names == CIFAR100[:80] + CIFAR100[90:]
    assert (len(dataset.split.labelled), len(dataset.split.unlabelled), len(truth.test)) == (400, 50, 90)
    assert set(truth.labels.tolist()) == set(range(80, 90))
    assert set(truth.test_labels.tolist()) == set(range(90))
    (tmp_path / "cifar-100-binary" / "test.bin").write_bytes(bytes(3074))
    with pytest.raises(DataError, match="80 known and 20 novel classes, got 1 and 0"):
        load_benchmark("cifar100-20", tmp_path)


def test_a_subset_keeps_the_first_images_of_every_class(tmp_path: Path, fake_binary: Fake) -> None:
    pixels, classes = fake_binary(tmp_path, "cifar10", 2)
    dataset = load_benchmark("cifar10", tmp_path, 2)
    truth = _truth(dataset)
    assert dataset.split.labels.bincount().tolist() == [2] * 5
    assert truth.labels.bincount().tolist() == [0] * 5 + [2] * 5
    assert truth.test_labels.bincount().tolist() == [2] * 10
    first = [row for row, label in enumerate(classes) if label < 5 and (classes[:row] == label).sum() < 2]
    assert np.array_equal(_pixels(dataset.split.labelled).numpy(), pixels[first].reshape(-1, 3, 32, 32))
    with pytest.raises(UsageError, match="subset"):
        load_benchmark("cifar10", tmp_path, 0)


@pytest.mark.parametrize(
    ("name", "near"), [("cifar-10", "cifar10"), ("cifar100-100", "cifar100-"), ("digit", "digits")]
)
def test_an_unknown_name(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=rf"Unknown benchmark '{name}'\. Did you mean '{near}"):
        load_benchmark(name)


def test_a_data_set_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """One function is all that a plug-in registers."""

    def toy() -> Family:
        labels, images = np.array([0, 1, 2, 0, 1, 2]), random_images(6)
        part = Part(labels, images)
        corpus, look = Corpus(("ant", "bee", "cat"), part, part), Look(4, "cifar", *PLAIN, stored=4)
        benchmarks = (Benchmark("toy", 2, ("cat",)),)
        return Family(lambda data_dir: corpus, look, "nothing", benchmarks, corpus.classes)

    monkeypatch.setattr(DATASETS, "names", lambda: ["toy"])
    monkeypatch.setattr(DATASETS, "get", lambda name: toy)
    assert benchmark_names() == ["toy"]
    assert [name for name, *_ in benchmark_rows()] == ["toy", "toy-K", "NAME-mixed", "NAME-Nshot"]
    assert load_benchmark("toy").class_names == ("ant", "bee", "cat")
    assert load_benchmark("toy-2").split.labels.tolist() == [0, 0]
    with pytest.raises(UsageError):
        load_benchmark("toy-3")


def test_every_benchmark_is_described() -> None:
    rows = {name: rest for name, *rest in benchmark_rows()}
    assert set(rows) == {*benchmark_names(), "cifar100-K", "NAME-mixed", "NAME-Nshot"}
    assert rows["imagenet-30-a"][:2] == ["882", "30"]
    assert rows["digits"][2] == "nothing"
    assert "cifar-100-python.tar.gz" in rows["cifar100-20"][2]


@pytest.mark.skipif("NEWFOUND_CIFAR_DIR" not in os.environ, reason="NEWFOUND_CIFAR_DIR names no CIFAR files")
@pytest.mark.parametrize(
    ("name", "sizes"),
    [("cifar10", (25_000, 25_000, 10_000)), ("cifar100-80-10", (40_000, 5_000, 9_000))],
)
def test_the_real_files(name: str, sizes: tuple[int, int, int]) -> None:
    dataset = load_benchmark(name, os.environ["NEWFOUND_CIFAR_DIR"])
    found = (dataset.split.labelled, dataset.split.unlabelled, _truth(dataset).test)
    assert tuple(map(len, found)) == sizes
