"""Known classes hidden and found again."""

from pathlib import Path

import pytest

from newfound.core.errors import UsageError
from newfound.data.dataset import Dataset
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
    with pytest.raises(UsageError, match="itself a trial"):
        find_hidden(run.folder.inner("trust"))
