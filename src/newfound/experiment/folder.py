"""A run's folder: its names, what it was asked for, and that no other run is overwritten."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import newfound
from newfound.core.config import Recipe
from newfound.core.errors import RunError, UsageError, in_words
from newfound.core.registry import recipe_for
from newfound.engine.claim import claimed
from newfound.engine.files import write_json
from newfound.experiment.source import Source


@dataclass(frozen=True)
class Folder:
    """The files of one run."""

    path: Path

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
            raise UsageError(
                f"{self.path} must be a new folder; it holds a run already; "
                "continue that one with --resume, or choose another --out"
            )
        # A run that an earlier version began lacks settings that are new since.
        began = self.read() | {"settings": self.recipe().flat()}
        differing = _differences(began, _asked(source, recipe))
        if "estimated" in differing:
            raise UsageError(
                f"a run must go on as it was started; the number of novel classes of {self.path} was "
                "estimated, and got one by hand; leave --num-novel out, or choose another --out"
            )
        if differing:
            moved = "newfound relocate if images moved, " * (not {*differing} - {"labelled", "unlabelled"})
            raise UsageError(
                f"a run must go on as it was started; got other values for {', '.join(differing)} than "
                f"{self.path} has; {moved}leave them as they were, or choose another --out"
            )

    def _check_free(self) -> None:
        """Refuse a folder with files of a run that nobody can vouch for."""
        found = [path.name for path in (*self.files, self.edits) if path.exists()]
        if found:
            raise UsageError(
                f"{self.path} must be a new folder; it holds {', '.join(found)} of some other run; "
                "choose another --out"
            )

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
            write_json(self.config, {"newfound": newfound.__version__} | _asked(source, recipe))

    def read(self) -> dict[str, Any]:
        """What the run was asked for."""
        try:
            config: dict[str, Any] = json.loads(self.config.read_text(encoding="utf-8"))
            return {key: config[key] for key in ("method", "data", "settings")}
        except (FileNotFoundError, NotADirectoryError):
            begun = (self.path / "estimate").exists()
            why = (
                "only an estimate there; finish the run with --resume"
                if begun
                else "no config.json there; check the path"
            )
            raise UsageError(f"a run must be in {self.path}; found {why}") from None
        except PermissionError:
            raise UsageError(
                f"{self.config} must be readable; permission is denied; mend its permissions"
            ) from None
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise self._strange(error) from None

    def read_results(self) -> dict[str, Any]:
        """What the run found."""
        try:
            found: dict[str, Any] = json.loads(self.results.read_text(encoding="utf-8"))
            missing = {"method", "timing", "warnings", "classes", "cluster_sizes"} - found.keys()
            if missing:
                raise ValueError(f"no {min(missing)}, perhaps since an older version wrote it")
            return found
        except FileNotFoundError:
            raise UsageError(
                f"{self.path} must hold a finished run; found no results.json there; repeat the call that "
                "started it, with --resume where the command has it"
            ) from None
        except (OSError, ValueError, AttributeError) as error:
            raise RunError(
                f"{self.results} must be the JSON that newfound wrote; got: {error}; remove it and repeat "
                "the call that made it, with --resume where the command has it"
            ) from None

    def read_metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, one for each epoch."""
        try:
            lines = [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]
            if not all({"stage", "epoch", "losses", "scores"} <= line.keys() for line in lines):
                raise ValueError("something else")
            return lines
        except (OSError, ValueError, AttributeError) as error:
            raise RunError(
                f"{self.metrics} must hold the lines that newfound wrote; got: {error}; "
                "take another copy of the run"
            ) from None

    def read_estimate(self) -> dict[str, Any] | None:
        """The estimate of the number of novel classes, where the run began with one."""
        try:
            found: dict[str, Any] = json.loads(self.estimate.read_text(encoding="utf-8"))
            if not {"settings", "low", "high"} <= found.keys():
                raise ValueError("something else")
            return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError) as error:
            raise RunError(
                f"{self.estimate} must be the JSON that newfound wrote; got: {error}; move its folder away "
                "and repeat the call that made it, with --resume"
            ) from None

    def recipe(self) -> Recipe:
        """The run's settings, every one of them."""
        config = self.read()
        return recipe_for(config["method"], "", config["settings"])

    def source(self) -> Source:
        """The run's images."""
        try:
            return Source(**self.read()["data"])
        except TypeError as error:
            raise self._strange(error) from None

    def _strange(self, error: Exception) -> RunError:
        return RunError(
            f"{self.config} must be the JSON that this version of newfound wrote; got: {in_words(error)}; "
            "choose another folder"
        )


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


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Settings by their own names, method and data by theirs."""
    flat_old, flat_new = (
        {**config["settings"], **config["data"], "method": config["method"]} for config in (old, new)
    )
    return sorted(key for key in flat_old | flat_new if flat_old.get(key) != flat_new.get(key))
