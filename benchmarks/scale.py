"""Measure the cost of `embed`, `discover` and `predict` on more and more generated images and vectors.

    python -m benchmarks.scale --out results/scale.json vectors:10000 vectors:100000 images:10000

Each argument generates that many vectors, or JPEG files of 64 pixels in tar files, which are embedded first.
One in eleven is labelled and of a known class. The others are a pile of known and novel classes, in which
k-means and the default method find the novel ones. The run of the latter then predicts all vectors. If the
data are kept, steps can be measured one at a time, and a stopped call can be resumed:

    python -m benchmarks.scale --out results/scale.json --place FOLDER --steps embed images:1000000
"""

import os
import signal
import sys
import tarfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from pydantic import BaseModel

from benchmarks.embed import QUALITY, finish, pictures, resident_mib, started
from newfound.core.files import atomic, read_record, write_record
from newfound.metrics.clustering import hungarian_accuracy
from newfound.run.folder import Folder
from newfound.run.pile import Assignments
from newfound.run.provenance import provenance
from newfound.run.recipe import VECTOR_METHOD

METHODS = ("kmeans", VECTOR_METHOD)
FEATURES = 384
KNOWN = 20
NOVEL = 20
SEED = 0
SPREAD = 0.25
"""Standard deviation of the class means, with noise of 1 in every feature."""
ROWS = 10_000
"""The number of vectors generated at a time."""
SIDE = 64
"""Width and height of an image in pixels."""
IN_TAR = 10_000
"""The number of images in a tar file."""
NOISE = 64
"""The number of levels by which a pixel may differ from the picture of its class."""
Classes = npt.NDArray[np.int64]


class Call(BaseModel):
    """The cost of a whole call of `newfound`."""

    data: str
    """`vectors` that were generated, or `images` or their vectors."""
    number: int
    """The number of images or vectors."""
    command: str
    seconds: float
    cpu_seconds: float
    """The CPU time of all processes; on a busy machine it says more than `seconds`."""
    peak_mib: float
    """The peak memory of all processes together, including mapped files."""
    commit: str
    hardware: str
    load: float
    """The average number of processes ready to run in the last 15 minutes, including these."""


class Discovery(Call):
    """A call of `newfound discover`."""

    method: str
    sample: int
    """The largest number of vectors of the pile to train on."""
    accuracy: float
    """The accuracy on all vectors of the pile, by Hungarian matching over all classes."""


class Scale(BaseModel):
    """The record in results/scale.json: all calls."""

    features: int = FEATURES
    known: int = KNOWN
    novel: int = NOVEL
    spread: float = SPREAD
    seed: int = SEED
    versions: dict[str, str]
    embeds: list[Call] = []
    discoveries: list[Discovery] = []
    predictions: list[Call] = []


class Spent(BaseModel):
    """What a call has cost so far, over all of its sessions."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mib: float = 0.0


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="record to write; new calls are added to it")
    parser.add_argument("--steps", default=",".join(("embed", *METHODS, "predict")))
    parser.add_argument("--place", type=Path, help="a folder in which to keep the data, to resume later")
    parser.add_argument("calls", nargs="+", metavar="vectors:NUMBER|images:NUMBER")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    for call in given.calls:
        data, number = call.split(":")[0], int(call.split(":")[1])
        with TemporaryDirectory() as folder:
            place = given.place / f"{data}-{number}" if given.place else Path(folder)
            _measure(data, number, place, given.steps.split(","), given.out)


def _measure(data: str, number: int, place: Path, steps: Sequence[str], out: Path) -> None:
    """Measure the steps that are not recorded yet."""
    place.mkdir(parents=True, exist_ok=True)
    here = provenance(torch.device("cpu"))
    record = read_record(out, Scale) if out.exists() else Scale(versions=here.versions)
    classes = _write_tars(place, number) if data == "images" else _write_vectors(place, number)
    vectors = "feats" if data == "images" else "all.npy"
    if data == "images" and "embed" in steps and not _has(record.embeds, data, number):
        words = ("embed", f"{place}/tars", "--encoder", "small-random", "--out", f"{place}/feats")
        record.embeds.append(_called(data, number, place, *words))
        write_record(out, record)
    methods = [step for step in steps if step not in ("embed", "predict")]
    for method in methods:
        if not _has([run for run in record.discoveries if run.method == method], data, number):
            record.discoveries.append(_discovered(data, place, vectors, classes, method))
            write_record(out, record)
    if "predict" in steps and not _has(record.predictions, data, number):
        run = next(
            method for method in (*methods[::-1], *METHODS[::-1]) if Folder(place / method).results.exists()
        )
        new = ("predict", f"{place}/{run}", f"{place}/{vectors}", "--out", f"{place}/answers")
        record.predictions.append(_called(data, number, place, *new))
        write_record(out, record)


def _has(calls: Sequence[Call], data: str, number: int) -> bool:
    found = any((call.data, call.number) == (data, number) for call in calls)
    if found:
        print(f"{data}:{number} is recorded already; remove it from the record to measure it again")
    return found


def _called(data: str, number: int, place: Path, *words: str) -> Call:
    """The cost of a call, including what it took before it was stopped."""
    taken = place / f"spent-{words[0]}-{words[1].replace(os.sep, '_')}.json"
    before = read_record(taken, Spent) if taken.exists() else Spent()
    spent, start, process = before, time.perf_counter(), started(*words)
    try:
        while process.poll() is None:
            spent = Spent(
                seconds=before.seconds + time.perf_counter() - start,
                cpu_seconds=max(spent.cpu_seconds, before.cpu_seconds + cpu_seconds(process.pid)),
                peak_mib=max(spent.peak_mib, resident_mib(process.pid)),
            )
            write_record(taken, spent)
            time.sleep(1)
    finally:
        process.terminate()
        process.wait()
    finish(process)
    taken.unlink(missing_ok=True)
    here, command = provenance(torch.device("cpu")), " ".join(["newfound", *words])
    return Call(
        data=data,
        number=number,
        command=command.replace(str(place), "FOLDER"),
        **spent.model_dump(),
        commit=here.commit,
        hardware=here.hardware,
        load=os.getloadavg()[2],
    )


def _discovered(data: str, place: Path, vectors: str, classes: Classes, method: str) -> Discovery:
    """The cost of a run on vectors, and how well it sorted them."""
    run = Folder(place / method)
    words = [
        *("discover", method, f"seed={SEED}", "--embeddings", f"{place}/{vectors}"),
        *("--labelled", f"{place}/known.csv", "--num-novel", str(NOVEL), "--pile", "mixed"),
        *("--out", str(run.path), *(("--resume",) if run.config.exists() else ())),
    ]
    called = _called(data, len(classes), place, *words)
    results = run.read_results()
    assert results.classes is not None
    assigned = Assignments.read(run.assignments, results.classes)
    true = classes[[int(Path(image).stem) for image in assigned.images]]
    accuracy = hungarian_accuracy(torch.from_numpy(assigned.ids), torch.from_numpy(true))
    return Discovery(
        **called.model_dump(),
        method=method,
        sample=int(str(results.config["sample"])),
        accuracy=accuracy,
    )


def _write_tars(place: Path, number: int) -> Classes:
    """Write tar files of JPEG files, all of them different, and known.csv; returns the classes (n,)."""
    classes, bases = _classes(number), pictures(KNOWN + NOVEL, (SIDE, SIDE))
    (place / "tars").mkdir(exist_ok=True)

    def name(row: int) -> str:
        return f"tars/part-{row // IN_TAR:05}.tar/{row:08}.jpg"

    for first in range(0, number, IN_TAR):
        path = (place / name(first)).parent
        if path.exists():
            continue
        random = np.random.default_rng([SEED, first])
        with atomic(path) as temporary, tarfile.open(temporary, "w") as tar:
            for row in range(first, min(first + IN_TAR, number)):
                noise = random.integers(0, NOISE, bases[0].shape, np.uint8)
                picture = np.roll(
                    bases[classes[row]] // 2 + noise, tuple(random.integers(SIDE, size=2)), (0, 1)
                )
                file = BytesIO()
                Image.fromarray(picture).save(file, "JPEG", quality=QUALITY)
                about = tarfile.TarInfo(os.path.basename(name(row)))
                about.size = file.tell()
                file.seek(0)
                tar.addfile(about, file)
        print(f"written: {path.name}", flush=True)
    _write_labels(place / "known.csv", classes, name)
    return classes


def _write_vectors(place: Path, number: int) -> Classes:
    """Write all.npy, all.txt and known.csv unless they exist; returns the classes (n,)."""
    random, classes = np.random.default_rng(SEED), _classes(number)
    if (place / "known.csv").exists():
        return classes
    means = SPREAD * random.standard_normal((KNOWN + NOVEL, FEATURES), np.float32)
    stored = np.lib.format.open_memmap(place / "all.npy", "w+", np.float16, (number, FEATURES))
    for first in range(0, number, ROWS):
        part = classes[first : first + ROWS]
        stored[first : first + ROWS] = means[part] + random.standard_normal((len(part), FEATURES), np.float32)
    stored.flush()
    (place / "all.txt").write_text("\n".join(f"{row}.png" for row in range(number)))
    _write_labels(place / "known.csv", classes, lambda row: f"{row}.png")
    return classes


def _classes(number: int) -> Classes:
    """The classes (n,), the labelled ones first."""
    random, labelled = np.random.default_rng(SEED + 1), number // 11
    return np.concatenate(
        [random.integers(KNOWN, size=labelled), random.integers(KNOWN + NOVEL, size=number - labelled)]
    )


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process and its children, including those that have ended."""
    ticks = 0
    with suppress(FileNotFoundError, ProcessLookupError):  # one has ended
        for each in (pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            ticks += sum(map(int, Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _write_labels(path: Path, classes: Classes, name: Callable[[int], str]) -> None:
    rows = (f"{name(row)},class-{label:02}" for row, label in enumerate(classes[: len(classes) // 11]))
    path.write_text("\n".join(["path,label", *rows]))


if __name__ == "__main__":
    main()
