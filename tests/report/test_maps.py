"""t-SNE maps: which points are drawn, and where the indices are."""

import numpy as np
import pytest

from newfound.report import maps
from newfound.report.figures import _grid
from newfound.report.maps import draw_tsne, embed, spread, stratified


def test_the_sample_keeps_the_proportions_and_is_always_the_same() -> None:
    labels = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], [600, 300, 100]))
    chosen = stratified(labels, 100)
    assert len(set(chosen.tolist())) == 100
    assert np.abs(np.bincount(labels[chosen]) - [60, 30, 10]).max() <= 1
    assert (chosen == stratified(labels, 100)).all()
    assert stratified(np.array([2, 0, 1]), 100).tolist() == [0, 1, 2]


@pytest.mark.parametrize("num", [2, 5, 40])
def test_few_and_equal_points_are_mapped_too(num: int) -> None:
    assert np.isfinite(embed(np.random.default_rng(0).normal(size=(num, 4)))).all()
    assert np.isfinite(embed(np.ones((num, 4), dtype=np.float32))).all()


def test_badges_do_not_overlap() -> None:
    crowded = np.array([[0.0, 0.0], [0.0, 0.0], [0.1, 0.0], [5.0, 5.0]])
    placed = spread(crowded, 1.0)
    gaps = np.linalg.norm(placed[:, None] - placed[None], axis=-1)[~np.eye(4, dtype=bool)]
    assert gaps.min() >= 1.0
    assert np.abs(placed[3] - crowded[3]).max() < 0.01


def test_badges_lie_within_the_axes_and_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class on top would hide the title, and two that lie together would hide each other."""
    centres = np.array([[0.0, 40.0], [-30.0, 0.0], [0.0, -40.0], [30.0, 0.0], [30.0, 2.0]])
    labels = np.repeat(np.arange(5), 8)
    points = centres[labels] + np.random.default_rng(0).normal(size=(40, 2))
    monkeypatch.setattr(maps, "embed", lambda logits: points)
    figure, ((axes,),) = _grid(1, 1, "maps")
    labels[labels == 4] = 5  # and no image is in class 4
    draw_tsne(np.eye(6)[labels], labels, list("abcdef"), 3, "IIC", axes)
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2", "3", "5"]
    assert axes.get_legend_handles_labels()[1] == ["0 a", "1 b", "2 c", "3 d", "4 e", "5 f"]
    figure.draw_without_rendering()
    inside = axes.get_window_extent()
    badges = [patch.get_window_extent() for text in axes.texts if (patch := text.get_bbox_patch())]
    for index, badge in enumerate(badges):
        assert badge.y1 < inside.y1
        assert not any(badge.overlaps(other) for other in badges[:index])
