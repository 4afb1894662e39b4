"""The page of a run: one file that needs nothing else and says what was found."""

import base64
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.core.errors import UsageError
from newfound.data.images import ResidentImages
from newfound.engine.files import write_json
from newfound.experiment import Folder, Source
from newfound.experiment.assignments import Assignments
from newfound.experiment.pile import Pile
from newfound.experiment.trust import Trust
from newfound.report.page import check_page
from newfound.report.page import page as page_of
from newfound.report.thumbnails import SIDE, data_uri
from newfound.review.review import Review

RESULTS: dict[str, Any] = {
    **{
        "method": "iic",
        "recipe": "default",
        "benchmark": "own",
        "seed": 3,
        "commit": "abc",
        "hardware": "CPU",
    },
    **{"versions": {"torch": "2"}, "timing": {"discover": {"seconds": 1234.0}}, "warnings": ["one <is> odd"]},
    "classes": {"known": ["ant", "<i>bee</i>"], "novel": ["novel-1", "novel-2"]},
}


def pile(count: int = 40, comparable: bool = True) -> Pile:
    logits = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    pixels = torch.arange(count).view(-1, 1, 1, 1).expand(-1, 3, 20, 24).to(torch.uint8)
    files = [f"pile/<b>&{row}.png" for row in range(count)]
    names = ["ant", "<i>bee</i>", "novel-1", "novel-2"]
    return Pile(ResidentImages(pixels, files), logits[:, 2:], logits, names, 2, comparable)


def draw(
    path: Path, of: Pile, call: str | None, results: dict[str, Any] = RESULTS, trust: Trust | None = None
) -> None:
    """The page of a run that nobody has edited, but for what its folder holds."""
    write_json(path.parent / "config.json", {"method": "iic", "data": {}, "settings": {}})
    review = Review(Folder(path.parent), of.names[:2], of.names[2:], Assignments.of(of), Source())
    path.write_text(page_of(of, review, results, trust, call), encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path) -> str:
    draw(tmp_path / "page.html", pile(), "newfound discover iic --out 'my run'")
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_it_needs_nothing_from_elsewhere(page: str) -> None:
    assert "http" not in page
    assert all(source.startswith("data:image/") for source in re.findall(r'src="([^"]+)"', page))
    assert not re.findall(r"<link|@import|url\(", page)


def test_it_says_what_was_found(page: str) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "2 new classes in 40 images" in text
    assert "2 classes were looked for; that number was given." in text
    assert "so no accuracy can be given" in text
    for name in ("novel-1", "novel-2"):
        assert name in text
    assert "1,234 s" in text
    assert "newfound discover iic --out &#39;my run&#39;" in text


def test_names_and_files_are_text_and_never_markup(page: str) -> None:
    assert "<i>bee" not in page
    assert "pile/<b>" not in page
    assert "&lt;i&gt;bee&lt;/i&gt;" in page
    assert "one &lt;is&gt; odd" in page


def test_every_class_can_be_named(page: str) -> None:
    assert re.findall(r'<input data-class="([^"]*)"', page) == ["novel-1", "novel-2"]
    assert "function commands(run, known, typed)" in page
    assert re.findall(r'<option value="([^"]*)">', page) == ["ant", "&lt;i&gt;bee&lt;/i&gt;"]


@pytest.mark.skipif(not shutil.which("node"), reason="node, which reads JavaScript, is not installed")
def test_the_script_can_be_read(page: str, tmp_path: Path) -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (tmp_path / "page.js").write_text(script, encoding="utf-8")
    done = subprocess.run(["node", "--check", str(tmp_path / "page.js")], capture_output=True, text=True)
    assert done.stderr == ""


def test_every_image_is_on_the_map(page: str) -> None:
    (found,) = re.findall(r"const points = (\[.*\]);", page)
    points = json.loads(found)
    assert [point["file"] for point in points] == [f"pile/<b>&{row}.png" for row in range(40)]
    assert {0.0, 1.0} <= {point["x"] for point in points} | {point["y"] for point in points}
    assert all(0 <= point[axis] <= 1 for point in points for axis in "xy")
    assert {point["name"] for point in points} == {"novel-1", "novel-2"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_pile_of_hardly_any_images(tmp_path: Path, count: int) -> None:
    draw(tmp_path / "page.html", pile(count), "")
    assert f"in {count} image{'s' * (count > 1)}</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("comparable", [True, False])
def test_known_classes_only_where_scores_can_be_compared(tmp_path: Path, comparable: bool) -> None:
    draw(tmp_path / "page.html", pile(comparable=comparable), None)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for words in ("more like a known class", "Of the known classes, most like"):
        assert (words in page) == comparable


def test_classes_without_images_do_not_count(tmp_path: Path) -> None:
    one = replace(pile(), scores=np.tile(np.array([[2, -2]], np.float32), (40, 1)))
    draw(tmp_path / "page.html", one, None)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>1 new class in 40 images</h1>" in page
    assert "2 classes were looked for" in page
    assert "No image." in page


def test_a_run_without_a_call_of_its_own(tmp_path: Path) -> None:
    draw(tmp_path / "page.html", pile(), None)
    assert "The call that made" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_accuracy_and_estimate_where_there_are_any(tmp_path: Path) -> None:
    known = {
        "task_aware": {"train": {"acc": {"best_head": 0.9571}}},
        "estimate": {"algorithm": "gcd", "low": 3, "high": 5},
    }
    draw(tmp_path / "page.html", pile(), "", RESULTS | known)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "95.7 %" in text
    assert "an estimate (gcd); 3 to 5 are plausible." in text


def test_what_became_of_hidden_classes(tmp_path: Path) -> None:
    draw(tmp_path / "page.html", pile(), "", trust=Trust(["ant", "bee"], 1234, 0.876, 0.876, None))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (
        "2 known classes were hidden and looked for in the same way (ant, bee): 87.6 % of their 1,234" in text
    )


def test_only_a_page_of_ours_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    check_page(path)
    draw(path, pile(), "")
    check_page(path)
    path.write_text("<html>mine</html>")
    for other in (path, tmp_path):
        with pytest.raises(UsageError, match="is something else; choose another --out"):
            check_page(other)


@pytest.mark.parametrize(("side", "kind"), [(8, "PNG"), (300, "JPEG")])
def test_a_thumbnail_is_the_image(side: int, kind: str) -> None:
    pixels = np.full((3, side, 2 * side), 90, np.uint8)
    header, code = data_uri(pixels).split(",")
    image = Image.open(io.BytesIO(base64.b64decode(code)))
    assert (header, image.format) == (f"data:image/{kind.lower()};base64", kind)
    assert image.size == ((16, 8) if side == 8 else (SIDE, SIDE // 2))
    assert abs(np.asarray(image).astype(int) - 90).max() <= 2
