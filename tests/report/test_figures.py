"""The figures as files, and what their titles say."""

import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run as start

import numpy as np
import pytest
from PIL import Image

from newfound.report.curves import draw_curves
from newfound.report.figures import RunScores, figures, task_agnostic_figure, task_aware_figure, tsne_figure

NAMES = ["cat", "dog", "frog", "horse", "ship"]
HEAD = "by the head that is used, the one of the lowest loss"
FILES = [
    f"{figure}.{kind}"
    for figure in ("tsne", "confusion-task-aware", "confusion-task-agnostic")
    for kind in ("png", "pdf")
]


def scored(title: str, noise: float = 0.1) -> RunScores:
    """A run of three known and two novel classes whose clusters are in the wrong order."""
    labels = np.arange(40) % 5
    scores = np.eye(5)[labels][:, [0, 1, 2, 4, 3]]
    scores = scores + np.random.default_rng(0).normal(scale=noise, size=scores.shape)
    return RunScores(title, scores, scores[:, 3:], labels, NAMES, 3)


@pytest.mark.parametrize("num_runs", [1, 2])
def test_every_figure_is_written_twice(tmp_path: Path, num_runs: int) -> None:
    paths = figures([scored(f"run {index}") for index in range(num_runs)], tmp_path / "new" / "figures")
    assert [path.name for path in paths] == FILES
    assert all(path.stat().st_size > 1000 for path in paths)
    width, _ = Image.open(paths[0]).size
    assert width == num_runs * 720


def test_without_truth_only_the_map_is_drawn(tmp_path: Path) -> None:
    run = replace(scored("own"), found=True)
    assert [path.name for path in figures([run], tmp_path)] == FILES[:2]
    own, both = (tsne_figure(runs).get_suptitle() for runs in ([run], [scored("test"), run]))
    assert own == "t-SNE of joint logits, training images\n● known  ▲ novel, as found"
    assert both.startswith("t-SNE of joint logits, test images / training images\n")


def test_titles_name_the_protocol_the_part_and_the_accuracy() -> None:
    aware = task_aware_figure([scored("UNOv2"), scored("UNOv2 + inter-class")])
    assert aware.get_suptitle() == f"Task-aware protocol, test images\n{HEAD}"
    titles = [axes.get_title() for axes in aware.axes]
    assert titles[1] == "UNOv2\nnovel images, novel head: ACC 100.0%"
    assert titles[2] == "UNOv2 + inter-class\nknown images, known head: ACC 100.0%"
    agnostic = task_agnostic_figure([scored("IIC")])
    assert agnostic.get_suptitle() == f"Task-agnostic protocol (novel-ids), test images\n{HEAD}"
    assert "ACC 100.0%" in agnostic.axes[0].get_title()


def test_novel_images_are_shown_as_the_novel_head_sees_them() -> None:
    """RS+ scores all classes by one head and novel ones by another."""
    run = replace(scored("RS+"), novel=np.eye(2)[np.arange(40) % 2])
    title = task_aware_figure([run]).axes[1].get_title()
    assert title == "RS+\nnovel images, novel head: ACC 50.0%"


def test_novel_classes_keep_their_joint_index() -> None:
    right = task_aware_figure([scored("IIC")]).axes[1]
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["3 horse", "4 ship"]


def test_a_run_with_more_clusters_than_classes_is_drawn() -> None:
    few = scored("estimated")
    more = replace(few, scores=np.pad(few.scores, ((0, 0), (0, 2))))
    columns = task_agnostic_figure([more]).axes[0].get_xticklabels()
    assert [tick.get_text() for tick in columns][4:] == ["4 ship", "no class", "no class"]


def test_curves_of_the_last_stage_are_drawn(tmp_path: Path) -> None:
    history = [{"stage": "pretrain", "epoch": 0, "losses": {"ce": 1.0}, "scores": {}}] + [
        {
            "stage": "discover",
            "epoch": epoch,
            "losses": {"ce": 1.0 / (1 + epoch), "inter": -0.1 * epoch},
            "scores": {"task-aware train ACC": 0.1 * epoch} if epoch % 2 else {},
        }
        for epoch in range(6)
    ]
    draw_curves(history, tmp_path / "both.png")
    draw_curves(history[:1], tmp_path / "losses.png")
    both, losses = (Image.open(tmp_path / name).size for name in ("both.png", "losses.png"))
    assert both[1] == 2 * losses[1]


def test_importing_the_figures_does_not_import_matplotlib_or_pyplot() -> None:
    code = (
        "import sys, newfound.report.figures, newfound.report.curves; sys.exit('matplotlib' in sys.modules)"
    )
    assert start([sys.executable, "-c", code], check=False).returncode == 0
