"""Known classes hidden and looked for."""

import json
import shutil
from pathlib import Path

from tests.cli.calls import DIGITS, TINY, refused, works
from tests.cli.conftest import Finished


def test_hidden_classes_are_looked_for_with_the_settings_of_the_run(run: Finished) -> None:
    mine = Path(shutil.copytree(run.path, "run"))
    works("report", mine)
    assert "were hidden" not in (mine / "report.html").read_text(encoding="utf-8")
    out = works("trust", mine)
    assert "known classes held out: 3, 4" in out
    results = json.loads((mine / "trust" / "results.json").read_text())
    accuracy = 100 * results["task_aware"]["train"]["acc"]["best_head"]
    line = (
        "2 known classes were hidden and looked for in the same way (3, 4): "
        f"{accuracy:.1f} % of their 24 images came into the right class"
    )
    assert line in out
    assert "all in one class would be 50.0 %" in out
    assert results["config"] == json.loads((mine / "results.json").read_text())["config"]
    works("report", mine)
    assert line in (mine / "report.html").read_text(encoding="utf-8")
    assert line in works("trust", mine)
    assert "seconds" not in works("trust", mine)


def test_what_is_refused(run: Finished, own_run: Finished) -> None:
    refused(1, ("trust", own_run.path), "at least 4 known classes", "got 3")
    refused(2, ("trust", run.path, "--hold-out", "4"), "--hold-out must be from 2 to 3")
    refused(2, ("trust", "nowhere"), "a run must be in")
    refused(2, ("trust", run.path, "--hold-out", "0"), "--hold-out must be from 2 to 3")
    assert not (run.path / "trust").exists()


def test_weights_that_were_given_are_not_used(run: Finished) -> None:
    weights = next((run.path.parent / "pretrained").glob("*.safetensors"))
    call = ("discover", "iic", *DIGITS, *TINY, f"pretrained={weights}", "--out", "given")
    works(*call)
    out = works("trust", "given")
    assert "the network is trained anew" in out
    assert json.loads(Path("given/trust/results.json").read_text())["config"]["pretrained"] == ""


def test_images_that_were_given_in_python(run: Finished) -> None:
    mine = Path(shutil.copytree(run.path, "run"))
    config = json.loads((mine / "config.json").read_text())
    (mine / "config.json").write_text(json.dumps(config | {"data": {"arrays": "0"}}))
    refused(2, ("trust", mine), "given in Python")


def test_images_that_have_changed(run: Finished) -> None:
    mine = Path(shutil.copytree(run.path, "run"))
    config = json.loads((mine / "config.json").read_text())
    config["data"]["subset"] = 11
    (mine / "config.json").write_text(json.dumps(config))
    refused(
        2,
        ("trust", mine),
        "have changed: 60 labelled and 60 unlabelled then, 55 labelled and 55 unlabelled now",
    )


def test_what_is_no_trial(run: Finished) -> None:
    mine = Path(shutil.copytree(run.path, "run"))
    shutil.copytree(run.path, mine / "trust")
    refused(1, ("report", mine), "must hold what newfound trust wrote", "move it away")


def test_a_trial_keeps_its_number(run: Finished) -> None:
    mine = Path(shutil.copytree(run.path, "run"))
    works("trust", mine, "--hold-out", "3")
    assert "known classes held out: 2, 3, 4" in works("trust", mine)
    refused(2, ("trust", mine / "trust"), "looks for known ones")
    refused(
        2, ("trust", mine, "--hold-out", "2"), "as in the trial that is there", "hides 3", "move that folder"
    )
