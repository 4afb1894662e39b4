"""The estimate.json of a folder: what was asked, the trials so far, and in the end the number."""

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import newfound
from newfound.core.registry import with_defaults
from newfound.data.images import Split
from newfound.engine.files import read_json, reading, write_json
from newfound.estimate.trial import Trial
from newfound.experiment.asked import ANOTHER, changed, differences, occupied, occupied_by

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
            raise occupied_by(self.path.parent, "an estimate")
        found = self._read()
        # One that an earlier version began lacks settings that are new since.
        old, new = (
            each | {"settings": with_defaults(self.asked["method"], each["settings"])}
            for each in ({key: found[key] for key in ASKED}, self.asked)
        )
        # Where the images are does not matter.
        if differing := [key for key in differences(old, new) if key not in ("labelled", "unlabelled")]:
            raise changed(self.path.parent, "an estimate", differing)
        self.content = found

    def _check_free(self) -> None:
        """Refuse the folder of a run, and one with a network of which nobody knows what it was shown."""
        if (self.path.parent / "config.json").exists():
            raise occupied(self.path.parent, "a run already")
        if (self.path.parent / "probe").exists():
            raise occupied(self.path.parent, "a probe without its estimate.json")

    def _read(self) -> dict[str, Any]:
        found = read_json(self.path, (*ASKED, "curve", "seconds"), ANOTHER)
        with reading(self.path, ANOTHER):
            [Trial(**point) for point in found["curve"]]
        return found

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
