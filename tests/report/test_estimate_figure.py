"""The curve of an estimate is drawn, and told in words."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from newfound.report.estimate_figure import draw_estimate, verdict


def found(algorithm: str, number: int = 3, high: int = 4) -> dict[str, Any]:
    silhouettes = [0.1, 0.3, 0.2] if algorithm == "dtc" else [None] * 3
    curve = [
        {"extra": extra, "accuracy": 0.5 + extra / 10, "silhouette": silhouette, "num_novel": extra}
        for extra, silhouette in zip((1, 2, 3), silhouettes, strict=True)
    ]
    preferred = {"accuracy": 3, "silhouette": 2} if algorithm == "dtc" else {"accuracy": 3}
    return {
        **{"num_novel": number, "low": number, "high": high, "extra": 3, "preferred": preferred},
        **{"curve": curve, "settings": {"estimate.algorithm": algorithm}},
    }


@pytest.mark.parametrize("algorithm", ["dtc", "gcd"])
def test_a_panel_for_each_criterion(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "estimate.png"
    draw_estimate(found(algorithm), path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.height > {"dtc": 600, "gcd": 300}[algorithm]
    assert list(tmp_path.iterdir()) == [path]


def test_in_words() -> None:
    assert verdict(found("dtc")) == "3 novel classes by dtc, 3 to 4 are plausible"
    assert verdict(found("dtc", 2, 2)) == "2 novel classes by dtc; its criteria agree"
    assert verdict(found("dtc", 3, 3)) == "3 novel classes by dtc, the most that were looked for"
    assert verdict(found("gcd", 1, 1)) == "1 novel class by gcd"
