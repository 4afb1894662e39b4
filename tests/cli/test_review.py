"""The page that is served to edit classes on."""

import json
import re
from pathlib import Path

import pytest

from newfound.report.serving import Server
from tests.cli.calls import newfound, refused, works


def test_the_page_is_served_until_ctrl_c(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at(server: Server) -> None:
        assert "novel-1" in server.live.get("").content.decode()
        assert server.live.get("image/0").kind == "image/png"
        edit = b'{"verb": "rename", "names": {"novel-1": "wasps"}, "seen": 0}'
        assert server.live.post(edit).status == 204
        works("rename", mine, "novel-2=ladybirds")
        assert "ladybirds" in server.live.get("").content.decode()
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", looked_at)
    out = works("review", mine)
    assert re.search(r"^open http://127\.0\.0\.1:\d+/\S{16}/$", out, re.MULTILINE)
    assert f"ended; newfound classes {mine}" in out
    assert "wasps" in works("classes", mine)
    refused(2, ("review", mine, "--port", "70000"), "--port")
    refused(2, ("review", "nowhere"), "nowhere", "check the path")


def test_images_that_were_given_in_python_have_no_page_to_serve(mine: Path) -> None:
    config = json.loads((mine / "config.json").read_text())
    (mine / "config.json").write_text(json.dumps(config | {"data": {"arrays": "0"}}))
    done = newfound("review", mine)
    assert (done.code, done.out) == (2, "")
    assert "given in Python" in done.err
