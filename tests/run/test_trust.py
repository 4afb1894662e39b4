"""Known classes hidden and found again."""

from pathlib import Path

import numpy as np
import pytest

from newfound.core.errors import UsageError
from newfound.core.registry import recipe_for
from newfound.data import load
from newfound.data.dataset import Dataset
from newfound.data.vectors import from_embedding_files
from newfound.review.page import trust_lines
from newfound.run.trust import find_hidden
from tests.tiny import tiny_recipe, tiny_run


def test_hidden_classes_are_found_and_remembered(digits: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe("kmeans"), digits)
    run.discover()
    trust = find_hidden(run.folder)
    assert trust.hidden == ["3", "4"]
    assert 0 < trust.accuracy <= 1
    assert trust.largest_class == pytest.approx(0.5, abs=0.1)
    assert trust.calibration_error == run.folder.inner("trust").read_results().calibration.error is not None
    assert run.folder.read_trust() == trust
    assert find_hidden(run.folder) == trust
    with pytest.raises(UsageError, match="hides 2 classes, not 3"):
        find_hidden(run.folder, 3)
    three = tiny_run(tmp_path / "three", tiny_recipe("kmeans"), digits)
    three.discover()
    assert find_hidden(three.folder, 3).hidden == find_hidden(three.folder).hidden == ["2", "3", "4"]


def test_a_mixed_pile_has_three_numbers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    classes = np.repeat(np.arange(7), 20)
    vectors = np.eye(8)[classes] + 0.1 * random.standard_normal((140, 8))
    np.save(tmp_path / "all.npy", vectors)
    (tmp_path / "all.txt").write_text("\n".join(f"{row}.png" for row in range(140)))
    (tmp_path / "known.csv").write_text(
        "image,label\n" + "".join(f"{row}.png,{name}\n" for row, name in enumerate(classes) if name < 6)
    )
    data = from_embedding_files(f"{tmp_path}/all.npy", f"{tmp_path}/known.csv", 1, pile="mixed")
    run = tiny_run(tmp_path / "run", recipe_for("centroids", "vectors", {"device": "cpu"}), data)
    run.discover()
    trust = find_hidden(run.folder)
    # Two of six classes are hidden; a fifth of the images is for test, half of the other known ones is piled.
    assert (trust.hidden, trust.images, trust.known_images) == (["4", "5"], 3 * 32, 3 * 32)
    assert (trust.recognised, trust.mistaken, trust.accuracy, trust.kmeans) == (1, 0, 1, 1)
    assert [each.num_novel >= 1 for each in trust.numbers] == [True] * 3
    hidden = [run.folder.inner(f"trust{part}").read_results().classes for part in ("", "/1", "/2")]
    assert len({tuple(each.known) for each in hidden if each}) == 3
    again = load(run.folder.inner("trust/1").request().source)
    assert again.class_names[:4] == tuple(hidden[1].known if hidden[1] else ())
    lines = trust_lines(trust)
    assert lines[0].endswith("in the same way, in 3 trials, the first of which hid 4, 5.")
    assert lines[1].startswith("Known images recognised as known: 100.0 % of 96; 0.0 % of the images")
    assert "of their 96 images are in the right class" in lines[2]
    assert "in single trials" not in lines[2]
    assert lines[3].startswith(f"Number of hidden classes: estimated {trust.numbers[0].num_novel}")
    assert lines[3].endswith("; true 2.")
