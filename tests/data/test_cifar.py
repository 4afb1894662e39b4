"""Both official distributions, and files that are damaged or hostile."""

import os
import pickle
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from newfound.core.errors import DataError
from newfound.data.cifar import CIFAR10, CIFAR100, Family, read_cifar


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


@pytest.mark.parametrize("family", ["cifar10", "cifar100"])
@pytest.mark.parametrize("kind", ["binary", "python"])
def test_reads_every_row(tmp_path: Path, family: Family, kind: str, request: pytest.FixtureRequest) -> None:
    expected, expected_labels = request.getfixturevalue(f"fake_{kind}")(tmp_path, family, 1)
    for data_dir in (tmp_path, next(tmp_path.iterdir())):
        pixels, labels = read_cifar(family, data_dir, "train")
        assert pixels.dtype == torch.uint8
        assert np.array_equal(pixels.numpy(), expected.reshape(-1, 3, 32, 32))
        assert np.array_equal(labels, expected_labels)
    assert len(read_cifar(family, tmp_path, "test")[0]) == len(expected) // 5


def test_reads_the_pickles_of_python_2(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
    for number in range(1, 6):
        batch = _python_2_batch(rows.tobytes(), 4, [0, 9, 3, number])
        assert pickle.loads(batch, encoding="bytes")[b"data"].tolist() == rows.tolist()  # it is what it seems
        (tmp_path / f"data_batch_{number}").write_bytes(batch)
    pixels, labels = read_cifar("cifar10", tmp_path, "train")
    assert np.array_equal(pixels[4:8].numpy().reshape(4, -1), rows)
    assert labels[4:8].tolist() == [0, 9, 3, 2]


def test_an_array_stored_by_columns_is_read_by_rows(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8)
    content = pickle.dumps({b"data": np.asfortranarray(rows), b"fine_labels": [1, 2, 3]}, protocol=4)
    (tmp_path / "train").write_bytes(content)
    assert np.array_equal(read_cifar("cifar100", tmp_path, "train")[0].numpy().reshape(3, -1), rows)


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
    with pytest.raises(DataError, match=r"train must be an official CIFAR batch; got .*mkdir"):
        read_cifar("cifar100", tmp_path, "train")
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    "name", ["builtins\neval", "numpy\nload", "numpy.core.multiarray\nfromfile", "numpy.testing\nrundocs"]
)
def test_only_what_an_array_is_made_of_may_be_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "train").write_bytes(b"\x80\x02c" + name.encode() + b"\n.")
    with pytest.raises(DataError, match="official CIFAR batch"):
        read_cifar("cifar100", tmp_path, "train")


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04", b"text", pickle.dumps([1, 2]), pickle.dumps({b"data": 3})]
)
def test_a_damaged_pickle(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "train").write_bytes(content)
    with pytest.raises(DataError, match=r"official CIFAR batch; got .+; unpack"):
        read_cifar("cifar100", tmp_path, "train")


@pytest.mark.parametrize("size", [0, 3073, 3 * 3074 - 1])
def test_a_binary_file_of_the_wrong_size(tmp_path: Path, size: int) -> None:
    (tmp_path / "train.bin").write_bytes(bytes(size))
    with pytest.raises(DataError, match=rf"multiple of 3074 bytes; got {size}; .*unpack"):
        read_cifar("cifar100", tmp_path, "train")


def test_labels_out_of_range(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(bytes([0, 100]) + bytes(3072))
    with pytest.raises(DataError, match="labels must be 0 to 99; got 100 to 100"):
        read_cifar("cifar100", tmp_path, "train")


def test_a_missing_set_says_where_it_looked_and_what_to_unpack(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()  # as in a folder of ImageNet
    with pytest.raises(DataError) as caught:
        read_cifar("cifar100", tmp_path, "train")
    text = str(caught.value)
    for part in (
        "cifar-100-binary/train.bin",
        "cifar-100-python/train",
        "cifar-100-python.tar.gz",
        str(tmp_path),
    ):
        assert part in text
    with pytest.raises(DataError, match=r"needs a data folder; .*cifar-10-binary\.tar\.gz"):
        read_cifar("cifar10", None, "train")


def test_a_missing_batch_is_named(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("fake_binary")(tmp_path, "cifar10", 1)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    with pytest.raises(DataError, match=r"must have data_batch_4\.bin in .*cifar-10-binary\.tar\.gz"):
        read_cifar("cifar10", tmp_path, "train")


@pytest.mark.skipif(
    "NEWFOUND_CIFAR_DIR" not in os.environ, reason="NEWFOUND_CIFAR_DIR names no real CIFAR files"
)
@pytest.mark.parametrize(("family", "names"), [("cifar10", CIFAR10), ("cifar100", CIFAR100)])
def test_the_real_files(family: Family, names: tuple[str, ...]) -> None:
    root = Path(os.environ["NEWFOUND_CIFAR_DIR"])
    for where, count in (("train", 50_000), ("test", 10_000)):
        pixels, labels = read_cifar(family, root, where)  # type: ignore[arg-type]
        assert pixels.shape == (count, 3, 32, 32)
        assert Counter(labels.tolist()) == dict.fromkeys(range(len(names)), count // len(names))
