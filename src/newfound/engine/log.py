"""What a run writes as it goes: JSON lines always, TensorBoard when it is installed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from newfound.engine.files import write_text, writing
from newfound.engine.trainer import EpochRecord


class RunLog:
    """`metrics.jsonl` of a run folder, a line for each epoch, in the order the epochs count."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "metrics.jsonl"
        self.lines: list[dict[str, Any]] = []
        self._folder = folder
        self._board: Any = None

    def restore(self, lines: list[dict[str, Any]]) -> None:
        """Continue after `lines`, the ones the checkpoint knows; later ones are trained again."""
        self.lines = list(lines)
        self._board = _tensorboard(self._folder, len(self.lines) + 1)
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in self.lines))

    def epoch(self, record: EpochRecord, scores: dict[str, float]) -> None:
        """Add a line for one epoch."""
        line = {key: value for key, value in asdict(record).items() if key != "epochs"} | {"scores": scores}
        self.lines.append(line)
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self._board is not None:
            for name, value in (record.losses | scores | {"lr": record.lr}).items():
                self._board.add_scalar(f"{record.stage}/{name}", value, len(self.lines))

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def _tensorboard(folder: Path, next_step: int) -> Any:
    """Steps are the run's epochs, counted over its stages; those from `next_step` on are forgotten."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder.absolute() / "tensorboard"), purge_step=next_step)
