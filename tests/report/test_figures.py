"""The figures as files, their titles, and the tables behind them."""

import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run as start

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from newfound.core.errors import UsageError
from newfound.core.records import Task
from newfound.core.source import Source
from newfound.estimate.trial import Trial
from newfound.metrics.protocols import task_agnostic
from newfound.report.figures import (
    HEAD,
    check_figures,
    draw_confusion,
    draw_curves,
    draw_estimate,
    figures,
    matched_table,
    task_agnostic_figure,
    task_aware_figure,
    tsne_figure,
    verdict,
)
from newfound.run.models import EpochLine, Estimate
from newfound.run.trained import RunScores

pytestmark = pytest.mark.slow

NAMES = ["cat", "dog", "frog", "horse", "ship"]
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
    assert own == "t-SNE of joint logits, training images\n● known  ▲ novel, as discovered"
    assert both.startswith("t-SNE of joint logits, test images / training images\n")


def test_titles_name_the_protocol_the_part_and_the_accuracy() -> None:
    """RS+ scores all classes by one head and novel ones by another, which novel images are shown with."""
    odd = replace(scored("RS+"), novel=np.eye(2)[np.arange(40) % 2])
    aware = task_aware_figure([scored("UNOv2"), odd])
    assert aware.get_suptitle() == f"Task-aware protocol, test images\n{HEAD}"
    assert [axes.get_title() for axes in aware.axes][1:] == [
        "UNOv2\nnovel images, novel head: ACC 100.0%",
        "RS+\nknown images, known head: ACC 100.0%",
        "RS+\nnovel images, novel head: ACC 50.0%",
    ]
    assert [tick.get_text() for tick in aware.axes[1].get_yticklabels()] == ["3 horse", "4 ship"]
    agnostic = task_agnostic_figure([scored("IIC")])
    assert agnostic.get_suptitle() == f"Task-agnostic protocol (novel-ids), test images\n{HEAD}"
    assert "ACC 100.0%" in agnostic.axes[0].get_title()


def test_a_run_with_more_clusters_than_classes_is_drawn() -> None:
    few = scored("estimated")
    more = replace(few, scores=np.pad(few.scores, ((0, 0), (0, 2))))
    columns = task_agnostic_figure([more]).axes[0].get_xticklabels()
    assert [tick.get_text() for tick in columns][4:] == ["4 ship", "no class", "no class"]


def test_only_figures_of_one_run_are_overwritten(tmp_path: Path) -> None:
    own = replace(scored("own"), found=True)
    figures([own], tmp_path)
    check_figures(tmp_path)
    figures([own, own], tmp_path)
    with pytest.raises(UsageError, match="not written by newfound"):
        check_figures(tmp_path)


def line(stage: str, epoch: int, losses: dict[str, float], scores: dict[str, float]) -> EpochLine:
    rest = {"lr": 0.1, "head_losses": [], "seconds": 1.0, "images_per_second": 1.0}
    return EpochLine.model_validate(
        {"stage": stage, "epoch": epoch, "losses": losses, "scores": scores} | rest
    )


def test_curves_of_the_last_stage_are_drawn(tmp_path: Path) -> None:
    first = line("pretrain", 0, {"ce": 1.0}, {})
    rare = [{"ACC": 0.1 * epoch} if epoch % 2 else {} for epoch in range(6)]
    last = [line("discover", epoch, {"ce": 1 / (1 + epoch)}, scores) for epoch, scores in enumerate(rare)]
    draw_curves([first, *last], tmp_path / "both.png")
    draw_curves([first], tmp_path / "losses.png")
    both, losses = (Image.open(tmp_path / name).size for name in ("both.png", "losses.png"))
    assert both[1] == 2 * losses[1]


def test_importing_the_figures_imports_neither_matplotlib_nor_torch() -> None:
    code = "import sys, newfound.report.figures; sys.exit(bool({'matplotlib', 'torch'} & {*sys.modules}))"
    assert start([sys.executable, "-c", code], check=False).returncode == 0


def estimate(algorithm: str, number: int = 3, high: int = 4) -> Estimate:
    silhouettes = (0.1, 0.3, 0.2) if algorithm == "dtc" else (None, None, None)
    about = {
        "newfound": "0",
        "method": "iic",
        "source": Source(),
        "images": "",
        "num_known": 4,
        "num_hidden": 2,
    }
    found = {
        "settings": {"estimate.algorithm": algorithm},
        "curve": [Trial(extra, extra, 0.5, each) for extra, each in enumerate(silhouettes, start=1)],
        **{"num_novel": number, "low": number, "high": high, "extra": 3},
        "preferred": {"accuracy": 3} | ({"silhouette": 2} if algorithm == "dtc" else {}),
    }
    return Estimate.model_validate(about | found)


@pytest.mark.parametrize("algorithm", ["dtc", "gcd"])
def test_an_estimate_has_a_panel_for_each_criterion(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "estimate.png"
    draw_estimate(estimate(algorithm), path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.height > {"dtc": 600, "gcd": 300}[algorithm]
    assert list(tmp_path.iterdir()) == [path]


def test_an_estimate_in_words() -> None:
    assert verdict(estimate("dtc")) == "3 novel classes by dtc, 3 to 4 are plausible"
    assert verdict(estimate("dtc", 2, 2)) == "2 novel classes by dtc; its criteria agree"
    assert verdict(estimate("dtc", 3, 3)) == "3 novel classes by dtc, the largest number considered"
    assert verdict(estimate("gcd", 1, 1)) == "1 novel class by gcd"
    sampled = estimate("dtc").model_copy(update={"sample": 50_000})
    assert verdict(sampled) == "3 novel classes by dtc on a sample of 50,000 vectors, 3 to 4 are plausible"


def test_clusters_are_placed_under_their_classes_and_known_ids_stay() -> None:
    true = np.array([0, 1, 2, 2, 3, 3])
    predicted = np.array([1, 0, 3, 3, 2, 0])
    assert matched_table(predicted, true, 4, 4, num_known=2).tolist() == [
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 2, 0],
        [1, 0, 0, 1],
    ]


def test_unmatched_clusters_come_last_and_unmatched_classes_are_empty() -> None:
    spare = matched_table(np.array([0, 2, 2, 1]), np.array([0, 1, 1, 1]), 3, 2, num_known=1)
    assert spare.tolist() == [[1, 0, 0], [0, 2, 1]]
    empty = matched_table(np.array([0, 0, 0]), np.array([0, 1, 1]), 1, 2, num_known=0)
    assert empty.tolist() == [[0, 1], [0, 2]]


def test_the_accuracy_of_a_table_is_that_of_the_novel_ids_matching() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(60, 7, generator=generator), torch.arange(60) % 7
    (head,) = task_agnostic(scores[None], labels, Task(4, 3))
    table = matched_table(scores.argmax(-1).numpy(), labels.numpy(), 7, 7, num_known=4)
    assert np.trace(table) / table.sum() == pytest.approx(head["novel-ids"].all)


def test_rows_are_percentages_and_a_large_matrix_shows_indices_only() -> None:
    small, axes = Figure().subplots(1, 2)
    draw_confusion(np.array([[3, 1], [0, 0]]), ["0 a", "1 b"], "title", small)
    assert [text.get_text() for text in small.texts] == ["75", "25", "0", "0"]
    draw_confusion(np.eye(20, dtype=np.int64), [f"{index} name" for index in range(80, 100)], "title", axes)
    assert not axes.texts
    assert [tick.get_text() for tick in axes.get_xticklabels()][:3] == ["80", "82", "84"]
