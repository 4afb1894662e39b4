"""`newfound discover` on generated vectors, `newfound embed` on generated images, as their number grows.

    python -m benchmarks.scale --out results/scale.json 10000 100000 kmeans:1000000 centroids:1000000:50000
    python -m benchmarks.scale --out results/scale.json embed:50000 embed:100000

Each argument is a number of vectors, perhaps after a method and before the size of the sample. One in eleven
is labelled, of a known class; all others are novel. Images are JPEG files of 64 pixels in tar files.
"""

import os
import resource
import subprocess
import sys
import tarfile
import time
from argparse import ArgumentParser
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image
from pydantic import BaseModel

from benchmarks.embed import QUALITY, ROOT, pictures, watched
from newfound.core.files import read_record, write_record
from newfound.data.vectors import read_embeddings
from newfound.metrics.clustering import hungarian_accuracy
from newfound.run.assignments import Assignments
from newfound.run.folder import Folder
from newfound.run.provenance import provenance

FEATURES, KNOWN, NOVEL, SEED = 384, 20, 20, 0
SPREAD = 0.25
"""Standard deviation of the class means, with noise of 1 in every feature."""
ROWS = 10_000
"""Vectors that are generated at a time."""
SIDE, IN_TAR = 64, 10_000
"""Pixels of an image, and images in a tar file."""


class Call(BaseModel):
    """A call, from its start to its end."""

    method: str
    vectors: int
    sample: int
    """Vectors that were trained on, at most."""
    command: str
    seconds: float
    cpu_seconds: float
    """Of all threads; on a busy machine it says more than `seconds`."""
    peak_mib: float
    """Of the process, with the pages of mapped files."""
    accuracy: float
    """Of the novel vectors in the pile, by Hungarian matching."""
    commit: str
    hardware: str


class EmbedCall(BaseModel):
    """A call of `newfound embed`, from its start to its end."""

    images: int
    tars: int
    command: str
    seconds: float
    cpu_seconds: float
    """Of all its processes; on a busy machine it says more than `seconds`."""
    images_per_cpu_second: float
    peak_mib: float
    """Of all its processes at once."""
    commit: str
    hardware: str


class Scale(BaseModel):
    """All calls."""

    features: int = FEATURES
    known: int = KNOWN
    novel: int = NOVEL
    spread: float = SPREAD
    seed: int = SEED
    versions: dict[str, str]
    calls: list[Call] = []
    embeds: list[EmbedCall] = []


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="calls are added to those in it")
    parser.add_argument("calls", nargs="+", metavar="[METHOD:]NUMBER[:SAMPLE]")
    given = parser.parse_args()
    for call in given.calls:
        words = call.split(":")
        methods = [words.pop(0)] if not words[0].isdigit() else ["kmeans", "centroids"]
        for method in methods:
            record = read_record(given.out, Scale) if given.out.exists() else Scale(versions=_versions())
            if method == "embed":
                record.embeds.append(_embedded(int(words[0])))
            else:
                record.calls.append(_measured(method, *map(int, words)))
            write_record(given.out, record)
            print(call, "done", flush=True)


def _measured(method: str, number: int, sample: int = 2_000_000) -> Call:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        classes = _write(place, number)
        words = [
            *("discover", method, f"sample={sample}", f"seed={SEED}", "--embeddings", f"{place}/all.npy"),
            *("--labelled", f"{place}/known.csv", "--num-novel", str(NOVEL), "--pile", "novel"),
            *("--out", f"{place}/run"),
        ]
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "newfound", *words], cwd=ROOT)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if status:
            raise RuntimeError(f"`newfound {' '.join(words)}` failed with {status}")
        run = Folder(place / "run")
        names = run.read_results().classes
        assert names is not None
        assigned = Assignments.read(run.assignments, names)
        rows = [int(Path(image).stem) for image in assigned.images]
        accuracy = hungarian_accuracy(
            torch.from_numpy(assigned.ids - KNOWN), torch.from_numpy(classes[rows] - KNOWN)
        )
        command = " ".join(["newfound", *words]).replace(str(place), "FOLDER")
        return Call(
            method=method,
            vectors=number,
            sample=sample,
            command=command,
            seconds=seconds,
            cpu_seconds=used.ru_utime + used.ru_stime,
            peak_mib=used.ru_maxrss / 1024,
            accuracy=accuracy,
            **_where(),
        )


def _embedded(number: int) -> EmbedCall:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        tars = _write_tars(place / "tars", number)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = ("embed", f"{place}/tars", "--encoder", "small-random", "--out", f"{place}/feats")
        seconds, peak = watched(*words)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert len(read_embeddings(place / "feats").vectors) == number
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return EmbedCall(
            images=number,
            tars=tars,
            command=" ".join(["newfound", *words]).replace(str(place), "FOLDER"),
            seconds=seconds,
            cpu_seconds=cpu,
            images_per_cpu_second=number / cpu,
            peak_mib=peak,
            **_where(),
        )


def _write_tars(place: Path, number: int) -> int:
    """Tar files of so many JPEG files each; few pictures differ, but all are decoded."""
    place.mkdir()
    contents = []
    for picture in pictures(256, (SIDE, SIDE)):
        file = BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=QUALITY)
        contents.append(file.getvalue())
    for first in range(0, number, IN_TAR):
        with tarfile.open(place / f"part-{first // IN_TAR:05}.tar", "w") as tar:
            for row in range(first, min(first + IN_TAR, number)):
                about = tarfile.TarInfo(f"{row:08}.jpg")
                about.size = len(contents[row % len(contents)])
                tar.addfile(about, BytesIO(contents[row % len(contents)]))
    return -(-number // IN_TAR)


def _where() -> dict[str, str]:
    here = provenance(torch.device("cpu"))
    return {"commit": here.commit, "hardware": here.hardware}


def _versions() -> dict[str, str]:
    return provenance(torch.device("cpu")).versions


def _write(place: Path, number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """all.npy, all.txt and known.csv; the classes (n,). The pile has novel vectors alone."""
    random = np.random.default_rng(SEED)
    labelled = number // 11
    known, novel = (
        random.integers(0, KNOWN, labelled),
        random.integers(KNOWN, KNOWN + NOVEL, number - labelled),
    )
    classes = np.concatenate([known, novel])
    means = SPREAD * random.standard_normal((KNOWN + NOVEL, FEATURES), np.float32)
    stored = np.lib.format.open_memmap(place / "all.npy", "w+", np.float16, (number, FEATURES))
    for first in range(0, number, ROWS):
        part = classes[first : first + ROWS]
        stored[first : first + ROWS] = means[part] + random.standard_normal((len(part), FEATURES), np.float32)
    stored.flush()
    (place / "all.txt").write_text("\n".join(f"{row}.png" for row in range(number)))
    rows = (f"{row}.png,class-{label:02}" for row, label in enumerate(known))
    (place / "known.csv").write_text("\n".join(["path,label", *rows]))
    return classes


if __name__ == "__main__":
    main()
