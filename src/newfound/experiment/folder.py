"""A run's folder: its names, what it was asked for, and that no other run is overwritten."""

import json
import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import newfound
from newfound.core.config import Recipe
from newfound.core.errors import RunError, UsageError
from newfound.core.registry import method_entry, recipe_for
from newfound.engine.claim import claimed
from newfound.engine.files import RESUME, read_json, reading, write_json
from newfound.experiment.asked import ANOTHER, changed, differences, occupied, occupied_by
from newfound.experiment.source import Source

ASKED = ("method", "data", "settings")
"""What config.json says of the call."""
FOUND = ("method", "timing", "warnings", "classes", "cluster_sizes")
"""What tells results.json from other files."""

SEEN = "images_seen"
"""When a run began, or was told where its images are, in its config."""


@dataclass(frozen=True)
class Folder:
    """The files of one run."""

    path: Path

    @property
    def quoted(self) -> str:
        """Its path as a command takes it that is copied from what we print."""
        return shlex.quote(str(self.path))

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.safetensors"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    @property
    def assignments(self) -> Path:
        return self.path / "assignments.csv"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def edits(self) -> Path:
        return self.path / "edits.jsonl"

    @property
    def estimate(self) -> Path:
        return self.path / "estimate" / "estimate.json"

    @property
    def trust(self) -> "Folder":
        """The run that looks for known classes."""
        return Folder(self.path / "trust")

    @property
    def files(self) -> tuple[Path, ...]:
        """All that a run writes, its config first."""
        return (
            *(self.config, self.checkpoint, self.metrics),
            *(self.results, self.assignments, self.report),
        )

    def check(self, source: Source, recipe: Recipe, resume: bool) -> None:
        """Refuse a folder that holds a run, unless it is the one to be resumed."""
        check_apart(self.path, source)
        if not self.config.exists():
            self._check_free()
            return
        if not resume:
            raise occupied_by(self.path, "a run")
        # A run that an earlier version began lacks settings that are new since.
        began = self.read() | {"settings": self.recipe().flat()}
        differing = differences(began, _asked(source, recipe))
        if "estimated" in differing:
            raise UsageError(
                f"a run must go on as it was started; the number of novel classes of {self.path} was "
                "estimated, and got one by hand; leave --num-novel out, or choose another --out"
            )
        if differing:
            moved = "newfound relocate if images moved, " * (not {*differing} - {"labelled", "unlabelled"})
            raise changed(self.path, "a run", differing, moved)

    def _check_free(self) -> None:
        """Refuse a folder with files of a run that nobody can vouch for."""
        found = [path.name for path in (*self.files, self.edits) if path.exists()]
        if found:
            raise occupied(self.path, f"{', '.join(found)} of some other run")

    def open(self, source: Source, recipe: Recipe, resume: bool) -> None:
        """Create the folder for a new run, or check that it holds the one to be resumed."""
        self.check(source, recipe, resume)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"the run folder {self.path} must be writable; got: {error.strerror}; choose another --out"
            ) from None
        _claim = claimed(self.path)  # until this is done: the run itself has one again
        self.check(source, recipe, resume or not self.config.exists())  # another may have been first
        for left_over in self.path.glob(".*.tmp"):
            shutil.rmtree(left_over) if left_over.is_dir() else left_over.unlink()
        if not self.config.exists():
            made_by = {"newfound": newfound.__version__, "digest": method_entry(recipe.method).code}
            write_json(self.config, made_by | {SEEN: time.time()} | _asked(source, recipe))

    @property
    def images_seen(self) -> float:
        """When its images were last seen to be the right ones; 0 where an earlier version did not say."""
        return float(read_json(self.config, ASKED, ANOTHER).get(SEEN, 0))

    def has_other_code(self) -> bool:
        """Whether the method's code has changed since the run began; not where nobody can tell."""
        if not self.config.exists():
            return False
        config = read_json(self.config, ASKED, ANOTHER)
        codes = {config.get("digest"), method_entry(config["method"]).code} - {None, ""}
        return len(codes) == 2

    def read(self) -> dict[str, Any]:
        """What the run was asked for."""
        if not self.config.exists():
            begun = (self.path / "estimate").exists()
            why = (
                "only an estimate there; finish the run with --resume"
                if begun
                else "no config.json there; check the path"
            )
            raise UsageError(f"a run must be in {self.path}; found {why}")
        config = read_json(self.config, ASKED, ANOTHER)
        return {key: config[key] for key in ASKED}

    def read_results(self) -> dict[str, Any]:
        """What the run found."""
        if not self.results.exists():
            raise UsageError(
                f"{self.path} must hold a finished run; found no results.json there; repeat the call that "
                f"started it, {RESUME}"
            )
        return read_json(self.results, FOUND, f"remove it and repeat the call that made it, {RESUME}")

    def read_metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, one for each epoch."""
        with reading(self.metrics, "take another copy of the run"):
            lines = [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]
            if not all({"stage", "epoch", "losses", "scores"} <= line.keys() for line in lines):
                raise ValueError("something else")
            return lines

    def read_estimate(self) -> dict[str, Any] | None:
        """The estimate of the number of novel classes, where the run began with one."""
        if not self.estimate.exists():
            return None
        remedy = "move its folder away and repeat the call that made it, with --resume"
        return read_json(self.estimate, ("settings", "low", "high"), remedy)

    def recipe(self) -> Recipe:
        """The run's settings, every one of them."""
        config = self.read()
        return recipe_for(config["method"], "", config["settings"])

    def source(self) -> Source:
        """The run's images."""
        data = self.read()["data"]
        with reading(self.config, ANOTHER):
            return Source(**data)


def check_apart(path: Path, source: Source) -> None:
    """Refuse a place among the images: what is written there would become some of them."""
    here = path.resolve()
    for images in (source.labelled, source.unlabelled):
        if images and Path(images).is_dir() and here.is_relative_to(Path(images).resolve()):
            raise UsageError(
                f"what is written must lie outside of the images; got {path} inside of {images}; "
                "choose another place"
            )


def _asked(source: Source, recipe: Recipe) -> dict[str, Any]:
    return {"method": recipe.method, "data": source.as_dict(), "settings": recipe.flat()}
