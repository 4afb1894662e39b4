"""Tiny files in the formats of the real ones."""

import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

Bytes = npt.NDArray[np.uint8]
Fake = Callable[[Path, str, int], tuple[Bytes, Bytes]]
Paint = Callable[..., str]


def _rows(num_classes: int, copies: int, seed: int) -> tuple[Bytes, Bytes]:
    """`copies` random images of each class, in an order that is not sorted."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(num_classes, dtype=np.uint8), copies))
    return random.integers(0, 256, (len(labels), 3072), dtype=np.uint8), labels


@pytest.fixture
def fake_binary() -> Fake:
    """Writes a binary distribution under a folder and returns all its training rows."""

    def write(root: Path, family: str, copies: int) -> tuple[Bytes, Bytes]:
        num_classes = 10 if family == "cifar10" else 100
        folder = root / {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}[family]
        folder.mkdir(parents=True)
        pixels, labels = _rows(num_classes, copies * 5, seed=0)
        test_pixels, test_labels = _rows(num_classes, copies, seed=1)
        columns = [labels[:, None]] if family == "cifar10" else [labels[:, None] // 5, labels[:, None]]
        rows = np.concatenate([*columns, pixels], axis=1)
        test_columns = [test_labels[:, None]] * len(columns)
        test_rows = np.concatenate([*test_columns, test_pixels], axis=1)
        if family == "cifar100":
            rows.tofile(folder / "train.bin")
            test_rows.tofile(folder / "test.bin")
        else:
            for number, part in enumerate(np.array_split(rows, 5), start=1):
                part.tofile(folder / f"data_batch_{number}.bin")
            test_rows.tofile(folder / "test_batch.bin")
        return pixels, labels

    return write


@pytest.fixture
def fake_python() -> Fake:
    """Writes a Python distribution under a folder and returns all its training rows."""

    def write(root: Path, family: str, copies: int) -> tuple[Bytes, Bytes]:
        num_classes = 10 if family == "cifar10" else 100
        folder = root / {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}[family]
        folder.mkdir(parents=True)
        pixels, labels = _rows(num_classes, copies * 5, seed=0)
        test_pixels, test_labels = _rows(num_classes, copies, seed=1)
        key = b"labels" if family == "cifar10" else b"fine_labels"

        def dump(name: str, data: Bytes, classes: Bytes) -> None:
            batch = {b"data": data, key: [int(label) for label in classes], b"batch_label": b"fake"}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=4))

        if family == "cifar100":
            dump("train", pixels, labels)
            dump("test", test_pixels, test_labels)
        else:
            for number, rows in enumerate(np.array_split(np.arange(len(labels)), 5), start=1):
                dump(f"data_batch_{number}", pixels[rows], labels[rows])
            dump("test_batch", test_pixels, test_labels)
        return pixels, labels

    return write


def png_16_bit_colour(*colour: int) -> bytes:
    """Two pixels of one colour, which Pillow can read but not write."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    row = b"\0" + struct.pack(">3H", *colour) * 2
    header = struct.pack(">2I5B", 2, 1, 16, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content


def tiff_16_bit(photometric: int, *planes: int) -> bytes:
    """One pixel, each of its values in a plane of its own; Pillow can read some of them and write none."""
    number = len(planes)
    beyond = 8 + 2 * number  # behind the header and the pixel
    entries = [
        *((256, 1, 1), (257, 1, 1), (258, number, 16 if number == 1 else beyond), (259, 1, 1)),
        *((262, 1, photometric), (273, number, 8 if number == 1 else beyond + 8), (277, 1, number)),
        *((278, 1, 1), (279, number, 2 if number == 1 else beyond + 24), (284, 1, 2 if number > 1 else 1)),
    ]
    content = struct.pack(f"<{number}H", *planes) + struct.pack("<4H", *3 * [16], 0)
    content += struct.pack("<3I", 8, 10, 12) + bytes(4) + struct.pack("<3I", *3 * [2]) + bytes(4)
    table = b"".join(struct.pack("<2H2I", tag, 3 if tag == 258 else 4, *rest) for tag, *rest in entries)
    where = struct.pack("<I", 8 + len(content))
    return b"II*\0" + where + content + struct.pack("<H", len(entries)) + table + bytes(4)


@pytest.fixture
def paint() -> Paint:
    """Writes one image of one colour, creating its folder, and returns its path."""

    def write(
        path: Path, colour: tuple[int, int, int] = (200, 100, 50), size: tuple[int, int] = (20, 20)
    ) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, colour).save(path)
        return str(path)

    return write
