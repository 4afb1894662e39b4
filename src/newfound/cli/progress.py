"""The progress of runs: a bar on a terminal, log lines elsewhere."""

from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column

from newfound.cli.console import HANDLER, console
from newfound.core.settings import Recipe
from newfound.data.dataset import Look
from newfound.engine.device import resolve_device
from newfound.nn.encoders import preprocessing_of
from newfound.run.events import Epoch, Event, LogProgress
from newfound.run.recipe import encoder_name


def cpu_advice(recipe: Recipe, look: Look) -> str:
    """How to make this run faster on a CPU; empty if it has a GPU."""
    if resolve_device(recipe.run.device).type != "cpu":
        return ""
    name, other = encoder_name(recipe, look), ""
    if preprocessing_of(name):
        other = "trains=heads or "
    elif look.kind != "vectors" and name != "small" and not recipe.run.weights:
        other = "encoder=lite0, encoder=small or "
    return f"{other}a GPU is much faster; fewer epochs are enough for a first look"


class Progress:
    """Shows epochs with their losses, ACC where the truth is known, images/s and the time left."""

    def __init__(self, advice: str = "") -> None:
        self._bars, self._log = _bars(), LogProgress(advice)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "Progress":
        if console().is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        HANDLER.label = ""
        if console().is_terminal:
            self._bars.stop()

    def labelled(self, label: str) -> "Progress":
        """Show the run called `label` from now on; returns itself."""
        HANDLER.label = f"{label}: "
        while self._tasks:
            self._bars.remove_task(self._tasks.popitem()[1])
        return self

    def __call__(self, event: Event) -> None:
        if not console().is_terminal:
            self._log(event)
        elif isinstance(event, Epoch):
            self._log.announce(event)
            record = event.record
            self._advance(record.stage, record.epoch + 1, record.epochs, self._log.detail(event))
        else:
            self._advance("trial", event.done, event.of, self._log.detail(event))

    def _advance(self, stage: str, done: int, of: int, detail: str) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(f"{HANDLER.label}{stage}", total=of, detail="")
        self._bars.update(self._tasks[stage], completed=done, detail=detail)


def _bars() -> Bars:
    return Bars(
        TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=8)),
        BarColumn(bar_width=10, table_column=Column(min_width=10)),
        TextColumn("{task.completed}/{task.total}", table_column=Column(no_wrap=True, min_width=7)),
        TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
        TextColumn("{task.fields[detail]}", table_column=Column(no_wrap=True, ratio=1)),
        console=console(),
        expand=True,
    )
