"""What an estimate says, in words and as a curve: how good the clusters are, the more of them there are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newfound.engine.files import atomic
from newfound.report.palette import colour

CRITERIA = ("accuracy", "silhouette")


def verdict(found: Mapping[str, Any]) -> str:
    """`23 novel classes by dtc, 19 to 27 are plausible`."""
    number, low, high = found["num_novel"], found["low"], found["high"]
    by = f"{number} novel class{'es' * (number > 1)} by {found['settings']['estimate.algorithm']}"
    if low < high:
        return f"{by}, {low} to {high} are plausible"
    if number >= max(point["extra"] for point in found["curve"]):
        return f"{by}, the most that were looked for"
    return f"{by}; its criteria agree" if len(found["preferred"]) > 1 else by


def draw_estimate(found: Mapping[str, Any], path: Path) -> None:
    """Draw an estimate.json: a panel for each criterion, its best trial, and the one that decides."""
    from matplotlib.figure import Figure

    criteria = [name for name in CRITERIA if name in found["preferred"]]
    figure = Figure(figsize=(7.2, 2.2 * len(criteria) + 0.4), layout="constrained")
    panels = figure.subplots(len(criteria), 1, squeeze=False, sharex=True)[:, 0]
    for index, (name, ax) in enumerate(zip(criteria, panels, strict=True)):
        at = [point["extra"] for point in found["curve"]]
        ax.plot(at, [point[name] for point in found["curve"]], color=colour(index), marker=".")
        ax.axvline(found["preferred"][name], color=colour(index), linestyle=":", label=f"best {name}")
        ax.axvline(found["extra"], color="0.3", linestyle="--", label="decides")
        ax.set_ylabel(name)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.suptitle(verdict(found), fontsize=10)
    panels[-1].set_xlabel("clusters beyond the classes that are clustered with the pile")
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")
