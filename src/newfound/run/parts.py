"""Process many images in parts, on this machine or on a Ray cluster; each part is published as a whole."""

import logging
import math
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import torch

from newfound.core.errors import DataError, Hint
from newfound.core.files import check_fits, free_disk, free_memory, in_units, located, reading, used_memory
from newfound.core.registry import library
from newfound.core.source import Engine
from newfound.data.archives import BLOCK, BLOCK_BYTES, ROWS, Files, Part, Rows, Table, Tar
from newfound.data.dataset import counted
from newfound.data.files import unusable
from newfound.data.folders import pile_files
from newfound.data.members import member_name
from newfound.data.parquet import PartFolder, num_rows, opened
from newfound.run.events import duration

log = logging.getLogger(__name__)
P = TypeVar("P")
FEW = 64
"""Fewest files in a part, unless there are fewer in all."""
MEMBERS = 100
"""Members of a tar file that are looked at to estimate how many images it has,"""
TARS = 64
"""and tar files whose size is asked for, at most."""
NAME = 100
"""Bytes per image in a table, besides its vector; compressed Parquet files take fewer."""
FILE = 4096
"""Bytes of a Parquet file besides its rows."""
PROGRAM = 600 * 2**20
"""Bytes of memory that the program itself takes,"""
CUDA = 800 * 2**20
"""and what a GPU adds to them (results/bench/h200-embed.json)."""
BLOCKS = 2 * BLOCK_BYTES
"""Bytes of memory for images of datasets and tar files, at most: of the block in use and the next one."""
COPIES = 4
"""Copies of vectors that are in memory at once."""
MANY = 1000
"""The memory for fewer images is checked, but not told."""
Done = tuple[int, list[str]]
"""The number of images processed, and the files that could not be read."""
Work = Callable[[Sequence[P]], Iterator[Done]]
"""Processes parts and publishes each result; doing so twice has the same effect as once."""


@dataclass(frozen=True)
class Workers:
    """Where parts are processed: here, or on the Ray cluster at an address (by default this machine)."""

    engine: Engine = "local"
    address: str | None = None
    number: int | None = None
    """By default one for each GPU or core."""


HERE = Workers()
"""This process."""


@dataclass(frozen=True)
class PartsReport:
    """What a call has done."""

    images: int
    """How many images it processed."""
    before: int
    """How many images were processed before; for tar files, datasets and embeddings, how many parts."""
    left_out: tuple[str, ...]
    """Files that were left out, each with the reason."""


def new_files(images: str, folder: PartFolder) -> tuple[list[str], int, list[str]]:
    """The files that are not in a folder yet, how many are, and the files left out."""
    paths, left_out = pile_files(images)
    known = set(folder.names())
    new = [path for path in paths if located(path) not in known]
    return new, len(paths) - len(new), left_out


def in_parts(paths: Sequence[str], workers: Workers) -> list[Files]:
    """Divide files into parts, several per worker."""
    size = min(ROWS, max(len(paths) // (4 * (workers.number or 1)), FEW))
    return [Files(paths[first : first + size]) for first in range(0, len(paths), size)]


def announce(parts: Sequence[Part | Table], out: str, each: int, memory: int, besides: int) -> int:
    """Log what parts will take; refuse what does not fit. Returns the number of images, 0 if it is unknown.

    An image takes `each` bytes of a file, and `memory` bytes until its part is done, `besides` what all need.
    """
    if not parts or ("://" in out and isinstance(parts[0], Table)):
        return 0
    numbers = [number for part in parts if (number := _number(part)) is not None]
    blocks = min(BLOCKS, sum(numbers) * BLOCK_BYTES // BLOCK) if isinstance(parts[0], Rows) else 0
    if tars := [part.name for part in parts if isinstance(part, Tar)]:
        numbers, blocks = _estimated(tars)
    if len(numbers) == len(parts):
        needed = sum(number * each + math.ceil(number / ROWS) * FILE for number in numbers)
        held = (max(numbers) if tars else min(sum(numbers), ROWS)) * memory + besides + blocks
        log.info("about " * bool(tars) + check_needs(sum(numbers), needed, held, out))
        return sum(numbers)
    free = f" on disk, {in_units(free_disk(Path(out)))} free" if "://" not in out else ""
    log.info(f"{counted(len(parts), 'part')}: up to {each:,} bytes per image{free}")
    return 0


def check_needs(images: int, disk: int, memory: int, place: str, hint: Hint | None = None) -> str:
    """What these images will take, in words; refuse what does not fit.

    `place` may be remote. `memory` is needed besides the program, and `hint` is for too little of it.
    """
    said, free = f"{counted(images, 'image')}: up to {in_units(disk)}", free_memory()
    program = PROGRAM + CUDA * torch.cuda.is_available()
    check_fits("memory", memory + max(program - used_memory(), 0), free, hint)
    if "://" not in place:
        room = free_disk(Path(place))
        check_fits(f"disk space for {place}", disk, room, Hint.NEW_FOLDER)
        said += f" on disk, {in_units(room)} free"
    if images < MANY:
        return said
    return f"{said}, and about {in_units(memory + program)} of memory, {in_units(free)} free"


def _number(part: Part | Table) -> int | None:
    """The number of images in a part; None if the whole part would have to be read to count them."""
    if isinstance(part, Files):
        return len(part.paths)
    if isinstance(part, Rows):
        return part.last - part.first
    if isinstance(part, Table) and part.name.endswith(".parquet"):
        with reading(part.name, "a file of embeddings", DataError):
            return num_rows(part.name)
    return None


def _estimated(tars: Sequence[str]) -> tuple[list[int], int]:
    """About how many images each tar file has, and the bytes of those in memory; none if they are damaged.

    They are judged by the first members of the first file, and the sizes of some files.
    """
    sizes = list[int]()
    try:
        for tar in tars[:: math.ceil(len(tars) / TARS)]:
            with reading(tar, "a tar file of images", DataError), opened(tar) as stream:
                sizes.append(stream.seek(0, os.SEEK_END))
        with (
            reading(tars[0], "a tar file of images", DataError),
            opened(tars[0]) as stream,
            tarfile.open(fileobj=stream, mode="r:") as file,
        ):
            members = [*islice(file, MEMBERS + 1)]
    except DataError:  # the work will say so
        return [], 0
    images = sum(not unusable(member_name(each.name)) for each in members[:MEMBERS])
    place = members[MEMBERS].offset if len(members) > MEMBERS else sizes[0]
    size = sum(sizes) / len(sizes)
    return [round(images * size / place)] * len(tars), min(BLOCKS, round(size * min(2, len(tars))))


def work_through(parts: Sequence[P], make: Callable[[], Work[P]], workers: Workers) -> Done:
    """Process all parts, one after another or, on a cluster, in parallel; each worker calls `make` first."""
    if workers.engine == "ray":
        results = _on_cluster(parts, make, workers)
    else:
        results = make()(parts) if parts else iter(())
    done, left_out, start = 0, list[str](), time.monotonic()
    for place, (number, failed) in enumerate(results, start=1):
        done += number
        left_out += failed
        left = (time.monotonic() - start) / place * (len(parts) - place)
        log.info(f"part {place:,}/{len(parts):,}, {counted(done, 'image')}, {duration(left)} left")
    return done, left_out


class ClusterWorker(Generic[P]):
    """A worker of Ray Data."""

    def __init__(self, parts: Sequence[P], make: Callable[[], Work[P]]) -> None:
        self.parts, self.work = parts, make()

    def __call__(self, batch: Mapping[str, Iterable[int]]) -> Mapping[str, list[int] | list[str]]:
        """Process the parts with these ids."""
        # Forking from one of Ray's processes may hang; on another thread nothing is forked.
        with ThreadPoolExecutor(1) as thread:
            results = thread.submit(list, self.work([self.parts[place] for place in batch["id"]])).result()
        return {"images": [number for number, _ in results], "failed": ["\n".join(f) for _, f in results]}


def _on_cluster(parts: Sequence[P], make: Callable[[], Work[P]], workers: Workers) -> Iterator[Done]:
    """Process the parts on a Ray cluster, which gives the part of a killed worker to another one."""
    library("ray.data", "ray")
    ray = library("ray", "ray")
    if not parts:
        return
    if not ray.is_initialized():
        ray.init(address=workers.address, log_to_driver=False)
    found = ray.cluster_resources()
    gpus, number = int(found.get("GPU", 0)), int(found.get("CPU", 1))
    rows = ray.data.range(len(parts), override_num_blocks=len(parts)).map_batches(
        ClusterWorker,
        batch_size=1,
        fn_constructor_kwargs={"parts": list(parts), "make": make},
        concurrency=min(workers.number or gpus or number, len(parts)),
        num_gpus=1 if gpus else None,
        num_cpus=0.5,
    )
    for row in rows.iter_rows():
        yield int(row["images"]), row["failed"].splitlines()
