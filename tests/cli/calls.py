"""The command line called in this process, and runs small enough to be made by the dozen."""

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from newfound.cli import main

SHORT = ("epochs=1", "warmup=0", "pretrain.epochs=1", "pretrain.warmup=0", "device=cpu")
TINY = (*SHORT, "batch_size=48", "pretrain.batch_size=24", "hidden=32", "projection=16")
DIGITS = ("--data", "digits", "--subset", "12")
UNTRAINED = ("rotnet.epochs=0", "known.epochs=0")
"""k-means on what a network sees that was never trained."""
SIDE = 16


def changed(words: tuple[str, ...], *settings: str) -> tuple[str, ...]:
    """A call with other values of these settings, which may be new to it."""
    keys = {each.partition("=")[0] for each in settings}
    return (*(word for word in words if word.partition("=")[0] not in keys), *settings)


@dataclass(frozen=True)
class Done:
    """How a call ended and what it printed."""

    code: int
    out: str
    err: str


def newfound(*arguments: str | Path) -> Done:
    """`newfound ARGUMENTS`, with nothing that looks like a terminal."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["newfound", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int)
    return Done(code, out.getvalue(), err.getvalue())


def works(*arguments: str | Path) -> str:
    """What a call prints that must succeed, without a word on stderr."""
    done = newfound(*arguments)
    assert (done.code, done.err) == (0, "")
    return done.out


def refused(code: int, arguments: tuple[str | Path, ...], *words: str) -> None:
    """A call that must end in one line, `error: ...`, with all of `words` in it."""
    done = newfound(*arguments)
    assert done.code == code, done.err
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert done.err.endswith("\n")
    missing = [word for word in words if word not in done.err]
    assert not missing, done.err


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, to see that nothing was lost."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def textures(folder: Path, colour: tuple[int, int, int], number: int, seed: int) -> Path:
    """`number` images of noise around a colour."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for row in range(number):
        noise: NDArray[np.int64] = random.integers(0, 80, (SIDE, SIDE, 3)) + np.array(colour)
        Image.fromarray(noise.astype(np.uint8)).save(folder / f"{row:02}.png")
    return folder
