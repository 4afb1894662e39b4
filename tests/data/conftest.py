"""Tiny files in the formats of the real ones."""

import pickle
import struct
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

from newfound.data.images import ResidentImages

Bytes = npt.NDArray[np.uint8]
Fake = Callable[[Path, str, int], tuple[Bytes, Bytes]]
Paint = Callable[..., str]


def random_images(count: int, seed: int = 0) -> ResidentImages:
    """Resident images of 4 x 4 random pixels."""
    random = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, 4, 4), generator=random, dtype=torch.uint8)
    return ResidentImages(pixels, [f"image-{row}" for row in range(count)])


def _rows(num_classes: int, copies: int, seed: int) -> tuple[Bytes, Bytes]:
    """`copies` random images of each class, in an order that is not sorted."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(num_classes, dtype=np.uint8), copies))
    return random.integers(0, 256, (len(labels), 3072), dtype=np.uint8), labels


def _fake(root: Path, family: str, copies: int, kind: str) -> tuple[Bytes, Bytes]:
    """Write an official distribution below `root` and return its training rows."""
    ten, binary = family == "cifar10", kind == "binary"
    binary_folder, python_folder = (
        ("cifar-10-batches-bin", "cifar-10-batches-py") if ten else ("cifar-100-binary", "cifar-100-python")
    )
    folder = root / (binary_folder if binary else python_folder)
    folder.mkdir(parents=True)

    def write(name: str, pixels: Bytes, labels: Bytes) -> None:
        if binary:
            columns = [labels[:, None]] if ten else [labels[:, None] // 5, labels[:, None]]
            np.concatenate([*columns, pixels], axis=1).tofile(folder / f"{name}.bin")
        else:
            batch = {b"data": pixels, b"labels" if ten else b"fine_labels": labels.tolist(), b"more": b"fake"}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=4))

    pixels, labels = _rows(10 if ten else 100, copies * 5, seed=0)
    names = [f"data_batch_{number}" for number in range(1, 6)] if ten else ["train"]
    for name, rows in zip(names, np.array_split(np.arange(len(labels)), len(names)), strict=True):
        write(name, pixels[rows], labels[rows])
    write("test_batch" if ten else "test", *_rows(10 if ten else 100, copies, seed=1))
    return pixels, labels


@pytest.fixture
def fake_binary() -> Fake:
    return partial(_fake, kind="binary")


@pytest.fixture
def fake_python() -> Fake:
    return partial(_fake, kind="python")


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
