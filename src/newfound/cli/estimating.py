"""An estimate as the command line makes it: shown as it happens, drawn, told in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from newfound.cli.output import show_warnings
from newfound.cli.progress import EpochProgress, advice_for
from newfound.cli.stopping import RESUME, Stopping
from newfound.data.images import Split
from newfound.estimate.trial import Trial
from newfound.experiment import Stopped
from newfound.experiment.estimation import estimate
from newfound.experiment.question import Question
from newfound.report.estimate_figure import draw_estimate, verdict

ROWS, NEAR = 10, 2
"""Trials in the table: some at even steps, those near the one that decides, and the best."""


class TrialProgress(EpochProgress):
    """Shows the epochs of the network, then the trials."""

    def trial(self, trial: Trial, done: int, of: int, seconds: float) -> None:
        if self.console.is_terminal:
            self._advance("trial", done, of, trial.in_words)
        else:
            self._lines.trial(trial, done, of, seconds)


def run_estimate(
    console: Console,
    question: Question,
    split: Split,
    out: Path,
    cache: Path,
    resume: bool,
    stop_at: float | None,
) -> dict[str, Any]:
    """Make an estimate, resumably, draw its curve, and print what it says."""
    progress = TrialProgress(console, advice=advice_for(question.recipe, split.look))
    with progress, Stopping(stop_at, progress.say, RESUME) as stopping:
        try:
            found = estimate(
                question,
                split,
                out,
                cache,
                resume=resume,
                watch=progress,
                watch_trial=progress.trial,
                say=progress.say,
                should_stop=stopping,
            )
        except Stopped:
            stopping.end(f"stopped; the trials so far are in {out}; {RESUME}")
    draw_estimate(found, out / "estimate.png")
    console.print(curve_table(found))
    console.print(f"estimate: {verdict(found)}")
    show_warnings(console, found["warnings"])
    console.print(f"written: {out}/estimate.json, {out}/estimate.png")
    return found


def curve_table(found: Mapping[str, Any]) -> Table:
    """Some of the trials, the deciding ones marked."""
    curve, marks = found["curve"], _marks(found)
    hidden = found["num_hidden"]
    table = Table(
        *("extra clusters", f"accuracy on {'hidden' if hidden else 'known'} classes"),
        *(("silhouette",) if hidden else ()),
        *("novel classes", ""),
        title="clusters beyond the classes that are clustered with the pile",
        box=box.SIMPLE_HEAD,
    )
    every = -(-len(curve) // ROWS)
    for place, point in enumerate(curve):
        near = abs(point["extra"] - found["extra"]) <= NEAR
        if place % every == 0 or near or point["extra"] in marks:
            silhouette = (f"{point['silhouette']:.3f}",) if hidden else ()
            mark = ", ".join(marks.get(point["extra"], ()))
            cells = (f"{point['accuracy']:.1%}", *silhouette, str(point["num_novel"]), mark)
            table.add_row(str(point["extra"]), *cells)
    return table


def _marks(found: Mapping[str, Any]) -> dict[int, list[str]]:
    """Trials by their extra clusters → why they count."""
    marks: dict[int, list[str]] = {}
    for criterion, extra in found["preferred"].items():
        marks.setdefault(extra, []).append(f"best {criterion}")
    marks.setdefault(found["extra"], []).append("decides")
    return marks
