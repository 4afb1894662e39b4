"""What a release says of its repository."""

import re
import tomllib
from pathlib import Path
from shutil import copy

import pytest

from tools.address import main

ROOT = Path(__file__).parents[2]
ADDRESS = "https://example.org/someone/newfound"


def test_a_release_has_whole_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("README.md", "pyproject.toml"):
        copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    main(ADDRESS, "v1")
    readme = Path("README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert all("://" in link for link in links)
    assert f"{ADDRESS}/raw/v1/docs/images/page.png" in links
    assert f"{ADDRESS}/blob/v1/docs/tutorial.md" in links
    assert f"{ADDRESS}/actions/workflows/test.yml/badge.svg" in links
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Source"] == ADDRESS
    assert project["scripts"]["newfound"] == "newfound.cli:main"
