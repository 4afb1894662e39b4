"""Both official distributions, and files that are damaged or hostile."""

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from newfound.core.errors import DataError
from newfound.data.benchmarks.cifar import Name, Where, read_cifar
from newfound.data.dataset import Rows
from tests.data.conftest import Bytes


def _string(content: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(content)) + content


def _python_2_batch(rows: bytes, count: int, labels: list[int]) -> bytes:
    """A batch as Python 2's pickle wrote the official ones: byte strings, old names of numpy's modules."""
    dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"(J" + struct.pack("<i", count) + b"J" + struct.pack("<i", 3072) + b"t"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    array += b"(K\x01" + shape + dtype + b"\x89" + _string(rows) + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + _string(b"data") + array + _string(b"labels") + numbers + b"u."


def _read(family: Name, folder: Path, where: Where = "train") -> tuple[Bytes, Rows]:
    """(n, 3072) pixels and (n,) labels."""
    part = read_cifar(family, folder, where)
    pixels = part.images.take(torch.arange(len(part.images)))
    assert (pixels.dtype, pixels.shape[1:]) == (torch.uint8, (3, 32, 32))
    return pixels.flatten(1).numpy(), part.labels


@pytest.mark.parametrize("family", ["cifar10", "cifar100"])
@pytest.mark.parametrize("kind", ["binary", "python"])
def test_reads_every_row(tmp_path: Path, family: Name, kind: str, request: pytest.FixtureRequest) -> None:
    expected, expected_labels = request.getfixturevalue(f"fake_{kind}")(tmp_path, family, 1)
    for data_dir in (tmp_path, next(tmp_path.iterdir())):
        pixels, labels = _read(family, data_dir)
        assert np.array_equal(pixels, expected)
        assert np.array_equal(labels, expected_labels)
    assert len(_read(family, tmp_path, "test")[0]) == len(expected) // 5


def test_reads_the_pickles_of_python_2(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
    for number in range(1, 6):
        batch = _python_2_batch(rows.tobytes(), 4, [0, 9, 3, number])
        assert pickle.loads(batch, encoding="bytes")[b"data"].tolist() == rows.tolist()  # it is what it seems
        (tmp_path / f"data_batch_{number}").write_bytes(batch)
    pixels, labels = _read("cifar10", tmp_path)
    assert np.array_equal(pixels[4:8], rows)
    assert labels[4:8].tolist() == [0, 9, 3, 2]


def test_an_array_stored_by_columns_is_read_by_rows(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8)
    content = pickle.dumps({b"data": np.asfortranarray(rows), b"fine_labels": [1, 2, 3]}, protocol=4)
    (tmp_path / "train").write_bytes(content)
    assert np.array_equal(_read("cifar100", tmp_path)[0], rows)


class _Hostile:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("where", ["top", "label", "beside"])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, where: str) -> None:
    trap = _Hostile(tmp_path / "trapped")
    data = np.zeros((1, 3072), np.uint8)
    batches = {
        "top": trap,
        "label": {b"data": data, b"fine_labels": [trap]},
        "beside": {b"data": data, b"fine_labels": [0], b"more": trap},
    }
    (tmp_path / "train").write_bytes(pickle.dumps(batches[where], protocol=4))
    with pytest.raises(DataError, match=r"train is not an official cifar100 file.*: .*mkdir"):
        read_cifar("cifar100", tmp_path, "train")
    assert not (tmp_path / "trapped").exists()


DATA = np.zeros((2, 3072), np.uint8)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("train", b"\x80\x02c" + name + b"\n.") for name in (b"builtins\neval", b"numpy\nload")),
        *(("train", content) for content in (b"", b"\x80\x04", b"text", pickle.dumps([1, 2]))),
        ("train", pickle.dumps({b"data": 3})),
        ("train", pickle.dumps({b"data": DATA, b"fine_labels": [1]})),
        ("train", pickle.dumps({b"data": DATA, b"fine_labels": [1, 100]})),
        *(("train.bin", bytes(size)) for size in (0, 3073, 3 * 3074 - 1)),
        ("train.bin", bytes([0, 100]) + bytes(3072)),
    ],
)
def test_damaged_and_hostile_files(tmp_path: Path, file: str, content: bytes) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DataError, match=r"not an official cifar100 file, as cifar-100-.*tar\.gz has it: .+"):
        read_cifar("cifar100", tmp_path, "train")


def test_missing_files_are_named(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "train").mkdir()  # as in a folder of ImageNet
    with pytest.raises(
        DataError, match=rf"cifar-100-python\.tar\.gz.*{tmp_path}/cifar-100-binary/train\.bin"
    ):
        read_cifar("cifar100", tmp_path, "train")
    with pytest.raises(DataError, match=r"cifar10 needs .*cifar-10-binary\.tar\.gz.*data_dir"):
        read_cifar("cifar10", None, "train")
    request.getfixturevalue("fake_binary")(tmp_path, "cifar10", 1)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_4\.bin: No such file"):
        read_cifar("cifar10", tmp_path, "train")
