"""Figures as files, each as PNG and PDF, and how those of one run are known again."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from newfound.core.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAPS, AWARE, AGNOSTIC, CURVES = "tsne", "confusion-task-aware", "confusion-task-agnostic", "curves"
KINDS = ("png", "pdf")
ONE_RUN = "newfound: figure of one run"
"""What the file of such a figure says of itself."""


def check_figures(folder: Path) -> None:
    """Refuse to draw a run over anything but figures of one run."""
    for path in (folder / f"{name}.{kind}" for name in (MAPS, AWARE, AGNOSTIC, CURVES) for kind in KINDS):
        if path.exists() and not (path.is_file() and ONE_RUN.encode() in path.read_bytes()):
            raise UsageError(
                f"figures of a run must go to a new place, or replace such figures; {path} is something "
                "else; choose another --out"
            )


def save(figure: "Figure", stem: Path, says: str | None) -> list[Path]:
    """Write the figure as PNG and PDF, the same bytes for the same figure."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in KINDS]
    with warnings.catch_warnings():
        # The font has no such character: the index beside the name still tells which class it is.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(paths[0], dpi=150, metadata={"Subject": says})
        figure.savefig(paths[1], dpi=300, metadata={"CreationDate": None, "Subject": says})
    return paths
