"""Finished runs that several tests look at, made once."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tests.cli.calls import DIGITS, TINY, textures, works


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default folders are in a temporary folder; there is no terminal and no GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@dataclass(frozen=True)
class Finished:
    """A run's folder, the command that made it, and what it printed."""

    path: Path
    call: tuple[str, ...]
    out: str


@dataclass(frozen=True)
class OwnImages:
    """Three known classes, and a pile of two novel ones with a truncated file in it."""

    labelled: Path
    pile: Path
    broken: Path

    @property
    def options(self) -> tuple[str, ...]:
        return "--labelled", str(self.labelled), "--unlabelled", str(self.pile), "--num-novel", "2"


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """IIC on a few digits; to be looked at, never changed."""
    path = tmp_path_factory.mktemp("digits") / "run"
    call = ("discover", "iic", *DIGITS, *TINY, "--out", str(path))
    return Finished(path, call, works(*call))


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> OwnImages:
    root = tmp_path_factory.mktemp("images")
    known = {"ants": (160, 0, 0), "bees [wild]": (0, 160, 0), "crabs": (0, 0, 160)}
    for seed, (name, colour) in enumerate(known.items()):
        textures(root / "known" / name, colour, 8, seed)
    whole = textures(root / "pile" / "monday", (160, 160, 0), 10, 3)
    textures(root / "pile" / "tuesday", (0, 160, 160), 10, 4)
    broken = root / "pile" / "broken.png"
    broken.write_bytes((whole / "00.png").read_bytes()[:60])
    return OwnImages(root / "known", root / "pile", broken)


@pytest.fixture(scope="session")
def own_run(images: OwnImages, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """IIC on own images."""
    path = tmp_path_factory.mktemp("own") / "run"
    call = ("discover", "iic", *images.options, *TINY, "encoder=small", "--out", str(path))
    return Finished(path, call, works(*call))


@pytest.fixture
def mine(own_run: Finished, tmp_path: Path) -> Path:
    """A copy to be edited."""
    return Path(shutil.copytree(own_run.path, tmp_path / "run"))
