"""Embedding JPEG files: ours, a plain loop over a `DataLoader`, and the memory of `newfound embed`."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.baseline.loading import PREFETCHED, num_workers
from benchmarks.measure import Machine, elapsed, milliseconds
from benchmarks.plugin import RandomLite0
from benchmarks.record import EmbedMemory, EmbedSpeed
from newfound.core.encoder import Encoder, Preprocessing
from newfound.engine.embedding import Embedder

SIZE = (500, 375)
QUALITY = 90
DISTINCT = 64
"""The number of different pictures; further files are copies of them."""
VIT = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536}
"""A ViT-S with patches of 16 pixels."""
ROOT = Path(__file__).parents[1]


def embed_speed(machine: Machine) -> Iterator[dict[str, EmbedSpeed]]:
    """Time both encoders, with random weights; yields all results so far."""
    found: dict[str, EmbedSpeed] = {}
    with photographs(machine.scale.embed_files) as folder:
        paths = sorted(map(str, folder.iterdir()))
        for name, encoder in {"lite0": RandomLite0(), "ViT-S": _vit()}.items():
            found = {**found, name: _speed(encoder, paths, machine)}
            yield found


def _speed(encoder: Encoder, paths: Sequence[str], machine: Machine) -> EmbedSpeed:
    """Time each at a steady rate: the clock starts after some batches and stops before the last ones."""
    device, workers = machine.device, num_workers()
    embedder = Embedder(deepcopy(encoder), device)
    batch, batches, spare = embedder.batch, workers * machine.scale.embed_rounds, workers * PREFETCHED
    files = [paths[row % len(paths)] for row in range(batch * (workers + batches + spare))]

    def rate(results: Iterator[object]) -> float:
        def consume(number: int) -> None:
            for _ in islice(results, number):
                pass

        consume(workers)
        return batch * batches / elapsed(lambda: consume(batches), device)

    images = torch.rand(batch, 3, embedder.look.size, embedder.look.size, device=device)
    network = milliseconds(
        lambda: _encode(embedder.encoder, images, embedder.precision), device, machine.scale.seconds
    )
    ours, plain = rate(embedder.files(files)), rate(_plain_loop(encoder, files, batch, machine))
    return EmbedSpeed(
        images=f"JPEG, {SIZE[0]} x {SIZE[1]} pixels, {os.path.getsize(paths[0]) / 1000:.0f} kB",
        batch_size=batch,
        images_per_second=ours,
        network_images_per_second=1000 * batch / network,
        straightforward_images_per_second=plain,
        workers=workers,
        times_as_fast=ours / plain,
    )


class PhotographDataset(Dataset[Tensor]):
    """Files as torchvision prepares them for an encoder: resize, centre crop, float, normalise."""

    def __init__(self, paths: Sequence[str], look: Preprocessing) -> None:
        self.paths, self.look = paths, look
        self.mean, self.std = (torch.tensor(each).view(3, 1, 1) for each in (look.mean, look.std))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Tensor:
        side, shorter = self.look.size, self.look.shorter or self.look.size
        with Image.open(self.paths[row]) as file:
            image = file.convert("RGB")
        width, height = (int(shorter * each / min(image.size)) for each in image.size)
        image = image.resize((width, height), Image.Resampling[self.look.interpolation.upper()])
        left, top = (width - side) // 2, (height - side) // 2
        pixels = np.array(image.crop((left, top, left + side, top + side)))
        levels = torch.from_numpy(pixels).permute(2, 0, 1).contiguous().float() / 255
        return (levels - self.mean) / self.std


def _plain_loop(encoder: Encoder, paths: Sequence[str], batch: int, machine: Machine) -> Iterator[Tensor]:
    """The loop that a user would write, with as many workers as cores."""
    assert encoder.preprocessing is not None
    dataset, pinned = PhotographDataset(paths, encoder.preprocessing), machine.device.type == "cuda"
    loader = DataLoader(dataset, batch, num_workers=num_workers(), pin_memory=pinned)
    for images in loader:
        yield _encode(encoder, images.to(machine.device, non_blocking=True), machine.precision).half().cpu()


@torch.no_grad()
def _encode(encoder: Encoder, images: Tensor, precision: torch.dtype) -> Tensor:
    with torch.autocast(images.device.type, precision, enabled=precision != torch.float32):
        features: Tensor = encoder(images)
    return features


def _vit() -> Encoder:
    from transformers import ViTConfig, ViTModel

    class ClassToken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = ViTModel(ViTConfig(**VIT), add_pooling_layer=False)

        def forward(self, images: Tensor) -> Tensor:
            features: Tensor = self.model(pixel_values=images).last_hidden_state[:, 0]
            return features

    half = (0.5, 0.5, 0.5)
    return Encoder.of(ClassToken(), VIT["hidden_size"], Preprocessing(224, half, half, shorter=256))


def embed_memory(numbers: Sequence[int]) -> Iterator[list[EmbedMemory]]:
    """The peak memory of `newfound embed` and its workers for each number of images, on Linux."""
    found: list[EmbedMemory] = []
    for number in numbers:
        with photographs(number) as folder, TemporaryDirectory() as out:
            seconds, peak = watched(
                "embed", str(folder), "--encoder", "lite0-random", "--out", f"{out}/feats"
            )
        found = [*found, EmbedMemory(images=number, peak_mib=peak, seconds=seconds)]
        yield found


def watched(*command: str) -> tuple[float, float]:
    """The seconds that a call of `newfound` takes, and the peak memory of it and its workers in MiB."""
    start, peak, process = time.perf_counter(), 0.0, started(*command)
    while process.poll() is None:
        looked = time.process_time()
        peak = max(peak, resident_mib(process.pid))
        time.sleep(max(0.1, 30 * (time.process_time() - looked)))  # counting many pages takes long
    finish(process)
    return time.perf_counter() - start, peak


def started(*command: str) -> subprocess.Popen[bytes]:
    """Start `newfound` in a process of its own, with the encoders of `benchmarks.plugin`."""
    paths = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    plugins = {"NEWFOUND_PLUGINS": "benchmarks.plugin", "PYTHONPATH": paths}
    return subprocess.Popen(
        [sys.executable, "-m", "newfound", *command], cwd=ROOT, env={**os.environ, **plugins}
    )


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for a call of `newfound`, which must succeed."""
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, process.args)


def resident_mib(pid: int) -> float:
    """The memory of a process and its children; a page that several of them map counts once."""
    kib = 0
    with suppress(FileNotFoundError, ProcessLookupError):  # one has ended
        for each in (pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            found = re.search(
                r"^Pss: +(\d+) kB", Path(f"/proc/{each}/smaps_rollup").read_text(), re.MULTILINE
            )
            kib += int(found[1]) if found else 0
    return kib / 2**10


@contextmanager
def photographs(number: int, classes: int = 1) -> Iterator[Path]:
    """A temporary folder of JPEG files, some of them equal, in one folder per class if there are several."""
    contents = []
    for picture in pictures(min(DISTINCT, number), SIZE):
        file = BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=QUALITY)
        contents.append(file.getvalue())
    with TemporaryDirectory() as folder:
        places = [Path(folder, f"{place:03}" if classes > 1 else "") for place in range(classes)]
        for place in places:
            place.mkdir(exist_ok=True)
        for row in range(number):
            (places[row % classes] / f"{row:06}.jpg").write_bytes(contents[row % len(contents)])
        yield Path(folder)


def pictures(number: int, size: tuple[int, int]) -> list[NDArray[np.uint8]]:
    """Generated pictures (height, width, 3) with edges, gradients and some noise."""
    random, found = np.random.default_rng(0), []
    for _ in range(number):
        rough = random.integers(0, 256, (size[1] // 25, size[0] // 25, 3), np.uint8)
        smooth = np.asarray(Image.fromarray(rough).resize(size, Image.Resampling.BICUBIC), np.float64)
        found.append((smooth + random.normal(0, 8, smooth.shape)).clip(0, 255).astype(np.uint8))
    return found
