"""Progress as it happens: a live bar on a terminal, plain lines elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from newfound.core.config import Recipe
from newfound.data.images import Look
from newfound.engine.device import resolve_device
from newfound.engine.trainer import EpochRecord
from newfound.experiment.model import encoder_name
from newfound.experiment.telling import Lines

PATIENCE_MINUTES = 20
"""A stage that takes longer on a CPU is worth a word about it."""


def advice_for(recipe: Recipe, look: Look) -> str:
    """What is quicker than a run on a CPU; nothing where it has a GPU."""
    if resolve_device(recipe.run.device).type != "cpu":
        return ""
    network = "" if recipe.run.weights or encoder_name(recipe, look) == "small" else "encoder=small or "
    return f"a GPU takes far less; {network}fewer epochs are enough for a first look"


class EpochProgress:
    """Shows epochs with losses, ACC where truth is known, images/s and the time left.

    A stage that begins slowly brings the advice, once.
    """

    def __init__(self, console: Console, label: str = "", advice: str = "") -> None:
        self.console, self.label, self._advice = console, label, advice
        self._bar = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=8)),
            BarColumn(bar_width=10, table_column=Column(min_width=10)),
            TextColumn("{task.completed}/{task.total}", table_column=Column(no_wrap=True, min_width=7)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
            TextColumn("{task.fields[detail]}", table_column=Column(no_wrap=True, ratio=1)),
            console=console,
            expand=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._lines = Lines(self.say)

    def __enter__(self) -> "EpochProgress":
        if self.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._bar.stop()

    def say(self, line: str) -> None:
        self.console.print(f"{self.label}{line}")

    def __call__(self, record: EpochRecord, scores: dict[str, float]) -> None:
        self._advise(record)
        if self.console.is_terminal:
            detail = self._lines.detail(record, scores)
            self._advance(record.stage, record.epoch + 1, record.epochs, detail)
        else:
            self._lines(record, scores)

    def _advise(self, record: EpochRecord) -> None:
        minutes = record.epochs * record.seconds / 60
        if self._advice and minutes > PATIENCE_MINUTES:
            self.say(f"{record.stage} alone takes about {minutes:.0f} minutes on this CPU; {self._advice}")
            self._advice = ""

    def _advance(self, stage: str, done: int, of: int, detail: str) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(f"{self.label}{stage}", total=of, detail="")
        self._bar.update(self._tasks[stage], completed=done, detail=detail)
