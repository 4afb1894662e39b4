"""What a run's stages took: seconds, modes, memory, and where and by what they were trained."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch

from newfound.engine.device import hardware, precision_name
from newfound.engine.trainer import EpochRecord, Trainer
from newfound.experiment.provenance import commit, peak_memory


@dataclass
class Account:
    """Kept in the checkpoint, so that a run that was interrupted goes on counting."""

    timing: dict[str, dict[str, float]] = field(default_factory=dict)
    """Stage → its seconds, those of compiling apart, and its images; of stages that this run trained."""
    modes: dict[str, str] = field(default_factory=dict)
    """Stage → how its steps really ran."""
    trained: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Finished stage → how it was trained, by this run or by the one whose weights it reuses."""
    sessions: list[dict[str, Any]] = field(default_factory=list)
    """What trained a stage from an epoch on, the earliest first; those that differ in no more are one."""
    peak_memory_gib: float = 0.0
    """The most memory that the run has taken, in this process or one before it."""

    @classmethod
    def of(cls, state: dict[str, Any]) -> "Account":
        """That of a checkpoint; those of earlier versions do not say who trained what."""
        return cls(**{each.name: state[each.name] for each in fields(cls) if each.name in state})

    def as_dict(self, device: torch.device) -> dict[str, Any]:
        self.peak_memory_gib = max(self.peak_memory_gib, round(peak_memory(device), 3))
        return asdict(self)

    @property
    def reused(self) -> dict[str, dict[str, Any]]:
        """How the stages were trained that this run found finished."""
        return {stage: how for stage, how in self.trained.items() if stage not in self.timing}

    def add(self, trainer: Trainer, record: EpochRecord) -> None:
        """Count an epoch, and its stage as finished after the last."""
        stage = record.stage
        self.modes[stage] = trainer.step.mode
        timing = self.timing.setdefault(stage, {"seconds": 0.0, "compile_seconds": 0.0, "images": 0})
        timing["seconds"] += record.seconds
        timing["compile_seconds"] += record.compile_seconds
        timing["images"] += trainer.loader.steps * trainer.loader.batch_size
        self._note_session(trainer, record)
        if record.epoch + 1 == record.epochs:
            self.trained[stage] = {**timing, **self._how_trained(stage)}

    def _note_session(self, trainer: Trainer, record: EpochRecord) -> None:
        session = {
            "stage": record.stage,
            "epoch": record.epoch,
            "commit": commit(),
            "hardware": hardware(trainer.loader.device),
            "precision": precision_name(trainer.step.precision),
            "mode": trainer.step.mode,
        }
        if not self.sessions or self.sessions[-1] | {"epoch": record.epoch} != session:
            self.sessions.append(session)

    def _how_trained(self, stage: str) -> dict[str, str]:
        """What all sessions of a stage were, not the last alone."""
        own = [session for session in self.sessions if session["stage"] == stage]
        return {
            key: " and ".join(dict.fromkeys(session[key] for session in own))
            for key in ("mode", "commit", "hardware")
        }

    def take_over(self, trained: dict[str, dict[str, Any]]) -> None:
        """Stages that another run has finished are its own, be they begun here."""
        for stage in trained.keys() - self.trained.keys():
            self.timing.pop(stage, None)
            self.modes.pop(stage, None)
            self.sessions = [session for session in self.sessions if session["stage"] != stage]
        self.trained = trained | self.trained
