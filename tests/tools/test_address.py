"""What a release says of its repository."""

import re
import tomllib
from pathlib import Path

import pytest

from tools.address import absolute, main

ADDRESS = "https://example.org/someone/newfound"


def test_a_release_has_whole_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text(
        "![a](docs/a.png) [b](docs/b.md) [c](../../actions/c) [d](https://d.org) [e](#e)"
    )
    Path("pyproject.toml").write_text('[project]\nname = "n"\n\n[project.scripts]\nn = "n:main"\n')
    main(ADDRESS, "v1")
    assert Path("README.md").read_text() == (
        f"![a]({ADDRESS}/raw/v1/docs/a.png) [b]({ADDRESS}/blob/v1/docs/b.md) [c]({ADDRESS}/actions/c) "
        "[d](https://d.org) [e](#e)"
    )
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert project["urls"]["Source"] == ADDRESS
    assert project["scripts"] == {"n": "n:main"}


def test_no_link_of_the_readme_stays_relative() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert all("://" in link for link in re.findall(r"\]\(([^)\s]+)\)", absolute(readme, ADDRESS, "v1")))
