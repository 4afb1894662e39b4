"""The estimate.json of a folder: what was asked, the trials so far, and in the end the number."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import newfound
from newfound.core.errors import RunError, UsageError, in_words
from newfound.core.registry import with_defaults
from newfound.data.images import Split
from newfound.engine.files import write_json
from newfound.estimate.trial import Trial

ASKED = ("method", "data", "settings", "images")


class EstimateRecord:
    """Written after every trial, so that an interrupted estimate goes on where it was."""

    def __init__(self, folder: Path, question: Mapping[str, Any], split: Split) -> None:
        self.path = folder / "estimate.json"
        self.asked = {**question, "images": _fingerprint(split)}
        self.content: dict[str, Any] = {"record": "estimate", "newfound": newfound.__version__, **self.asked}
        self.content |= {"seconds": 0.0, "curve": []}

    def open(self, resume: bool) -> None:
        """Refuse a folder that holds another estimate; take over what is there of this one."""
        if not self.path.exists():
            self._check_free()
            return
        if not resume:
            raise UsageError(
                f"{self.path.parent} must be a new folder; it holds an estimate already; "
                "continue that one with --resume, or choose another --out"
            )
        found = self._read()
        differing = _differences(found, self.asked)
        if differing:
            raise UsageError(
                f"--resume must repeat the call that started {self.path.parent}; got other values for "
                f"{', '.join(differing)}; leave them as they were, or choose another --out"
            )
        self.content = found

    def _check_free(self) -> None:
        """Refuse the folder of a run, and one with a network of which nobody knows what it was shown."""
        if (self.path.parent / "config.json").exists():
            raise UsageError(
                f"{self.path.parent} must be a new folder; it holds a run already; choose another --out"
            )
        if (self.path.parent / "probe").exists():
            raise UsageError(
                f"{self.path.parent} must be a new folder; it holds a probe without its estimate.json; "
                "choose another --out"
            )

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            if not {*ASKED, "curve", "seconds"} <= found.keys():
                raise KeyError("curve")
            [Trial(**point) for point in found["curve"]]
            return found
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{self.path} must be the JSON that this version of newfound wrote; got: {in_words(error)}; "
                "choose another folder"
            ) from None

    @property
    def finished(self) -> bool:
        return "num_novel" in self.content

    @property
    def trials(self) -> dict[int, Trial]:
        """By their `extra`."""
        return {point["extra"]: Trial(**point) for point in self.content["curve"]}

    def note(self, **facts: Any) -> None:
        """Add facts, and write the file."""
        self.content |= facts
        write_json(self.path, self.content)

    def add(self, trial: Trial, seconds: float) -> None:
        """Add a trial, in the order of the numbers of clusters."""
        trials = self.trials | {trial.extra: trial}
        curve = [asdict(trials[extra]) for extra in sorted(trials)]
        self.note(curve=curve, seconds=self.content["seconds"] + seconds)


def _fingerprint(split: Split) -> str:
    """Of the images and the labels of known classes, and of nothing else."""
    labels = split.labels.cpu().numpy().tobytes()
    parts = (split.labelled.fingerprint(), split.unlabelled.fingerprint())
    return blake2b("/".join(parts).encode() + labels, digest_size=16).hexdigest()


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Settings and data by their own names, method and images by theirs; where these are does not matter."""
    flat_old, flat_new = (
        with_defaults(new["method"], each["settings"])
        | {**each["data"], "method": each["method"], "images": each["images"]}
        for each in (old, new)
    )
    asked = (flat_old | flat_new).keys() - {"labelled", "unlabelled"}
    return sorted(key for key in asked if flat_old.get(key) != flat_new.get(key))
