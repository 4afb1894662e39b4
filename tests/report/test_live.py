"""A page on which classes are edited: what it answers, and to whom."""

import json
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from newfound.core.errors import UsageError
from newfound.engine.files import write_json
from newfound.experiment import Folder
from newfound.experiment.assignments import Assignments
from newfound.report.live import VERBS, Live
from newfound.report.serving import HOST, MOST_BYTES, Server
from newfound.review.review import Review
from tests.report.test_page import RESULTS, pile


@pytest.fixture
def live(tmp_path: Path) -> Live:
    """Forty images in two novel classes, nothing edited yet."""
    found, folder = pile(), Folder(tmp_path / "run")
    given = Assignments.of(found)
    sizes = np.bincount(given.clusters, minlength=2).tolist()
    write_json(folder.config, {"method": "iic", "data": {}, "settings": {}})
    write_json(folder.results, RESULTS | {"cluster_sizes": sizes})
    given.write(folder.assignments, found.names[2:])
    return Live(folder, found)


def body(live: Live, **edit: Any) -> bytes:
    """An edit of what the page shows now."""
    return json.dumps(edit | {"seen": len(live.review().log)}).encode()


def post(live: Live, **edit: Any) -> None:
    answer = live.post(body(live, **edit))
    assert (answer.status, answer.content) == (HTTPStatus.NO_CONTENT, b"")


def test_the_page_asks_for_its_pictures(live: Live) -> None:
    text = live.get("").content.decode()
    assert "http" not in text
    assert "data:image" not in text
    rows = re.findall(r'<img data-row="(\d+)" src="image/(\d+)"', text)
    assert rows
    assert all(row == image for row, image in rows)
    assert 'id="commands"' not in text
    assert "<i>bee" not in text


def test_a_picture(live: Live) -> None:
    answer = live.get("image/7")
    with Image.open(BytesIO(answer.content)) as image:
        assert (image.format, image.size) == ("JPEG", (24, 20))
        assert image.getpixel((0, 0)) == (7, 7, 7)
    assert answer.kind == "image/jpeg"


@pytest.mark.parametrize(
    "path", ["image/40", "image/-1", "image/", "image/x", "class/a", "edit", "../x", "/"]
)
def test_there_is_nothing_else(live: Live, path: str) -> None:
    assert live.get(path).status == HTTPStatus.NOT_FOUND


def test_the_images_of_a_class_the_least_sure_first(live: Live) -> None:
    found = json.loads(live.get("class/3").content)
    given = live.review().assignments
    rows = [each["row"] for each in found]
    assert sorted(rows) == np.flatnonzero(given.clusters == 1).tolist()
    assert (np.diff(given.confidence[rows]) >= 0).all()
    assert found[0]["file"] == given.images[rows[0]]
    assert json.loads(live.get("class/99").content) == []


def test_every_edit(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    post(live, verb="rename", names={"novel-1": "<wasp>"})
    assert "&lt;wasp&gt;" in live.get("").content.decode()
    row = int(np.flatnonzero(live.review().ids == 3)[0])
    post(live, verb="move", into="<wasp>", rows=[row])
    assert live.review().ids[row] == 2
    monkeypatch.setattr(
        "newfound.review.review.pile_features",
        lambda folder, images, data_dir: np.eye(len(images), 4, dtype=np.float32),
    )
    post(live, verb="split", name="novel-2")
    assert list(live.review().names.values())[2:] == ["<wasp>", "novel-2", "novel-2-2"]
    post(live, verb="merge", into="ant", others=["novel-2-2"])
    post(live, verb="undo")
    assert list(live.review().names.values())[2:] == ["<wasp>", "novel-2", "novel-2-2"]
    assert set(VERBS) == {"rename", "move", "split", "merge", "undo"}


def test_an_edit_that_cannot_be_made_is_told(live: Live) -> None:
    answer = live.post(body(live, verb="rename", names={"novel-3": "wasp"}))
    assert answer.status == HTTPStatus.CONFLICT
    assert b"unknown class 'novel-3'" in answer.content
    assert not live.folder.edits.exists()


@pytest.mark.parametrize(
    "asked",
    [
        *("", "1", "[]", "{}", '{"verb": "export"}', '{"verb": "rename"}', '{"verb": "rename", "names": 3}'),
        *("[" * 100_000, '{"verb": "undo"}', '{"verb": "undo", "more": 1}'),
        *(
            '{"verb": "rename", "names": {"novel-1": 3}}',
            '{"verb": "merge", "into": 2, "others": ["novel-1"]}',
        ),
        *('{"verb": "move", "into": "ant", "rows": [4.5]}', '{"verb": "move", "into": "ant", "rows": ["1"]}'),
        *('{"verb": "split", "name": null}', '{"verb": "split", "name": "\\ud800"}', "\ud800"),
        '{"verb": "split", "name": "novel-1", "number": 3}',
    ],
)
def test_nonsense_is_refused(live: Live, asked: str) -> None:
    for text in (asked, asked.replace("}", ', "seen": 0}') if "undo" not in asked else ""):
        answer = live.post(text.encode("utf-8", "surrogatepass"))
        assert answer.status == HTTPStatus.BAD_REQUEST
    assert not live.folder.edits.exists()


def test_edits_of_others_are_seen(live: Live) -> None:
    live.get("")
    before = body(live, verb="undo")
    Review.open(live.folder.path).rename({"novel-1": "wasp"})
    answer = live.post(before)
    assert (answer.status, answer.content[:15]) == (HTTPStatus.CONFLICT, b"somebody has ed")
    assert "wasp" in live.get("").content.decode()
    post(live, verb="rename", names={"wasp": "hornet"})


@pytest.fixture
def server(live: Live) -> Iterator[Server]:
    server = Server(live, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def status(address: str, body: bytes | None = None) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_it_is_served_to_who_knows_the_address(server: Server) -> None:
    edit = body(server.live, verb="rename", names={"novel-1": "wasp"})
    root = server.address.removesuffix(f"{server.secret}/")
    assert root.startswith("http://127.0.0.1:")
    for wrong in (root, f"{root}edit", f"{root}{server.secret}", f"{root}secret/", f"{root}secret/edit"):
        assert status(wrong) == status(wrong, edit) == 404
    assert not server.live.folder.edits.exists()
    assert status(server.address) == status(f"{server.address}image/3?again") == 200
    assert status(f"{server.address}image/3", edit) == 404
    assert status(f"{server.address}edit", edit) == 204
    assert server.live.review().names[2] == "wasp"


def test_a_run_that_was_broken_meanwhile(server: Server) -> None:
    undo = body(server.live, verb="undo")
    server.live.folder.edits.mkdir()
    assert status(server.address) == status(f"{server.address}edit", undo) == 500
    server.live.folder.results.unlink()
    assert status(server.address) == 500
    assert status(f"{server.address}edit", undo) == 409


def test_of_edits_at_once_one_is_made(server: Server) -> None:
    edits = [body(server.live, verb="rename", names={"novel-1": f"wasp {each}"}) for each in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda edit: status(f"{server.address}edit", edit), edits))
    assert sorted(found) == [204] + [409] * 7
    assert len(server.live.review().log) == 1


def test_browsers_that_go_away_or_talk_nonsense(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    for request in (
        b"",
        b"GET ",
        b"GET foo HTTP/1.0\r\n\r\n",
        b"POST / HTTP/1.0\r\nContent-Length: 9\r\n\r\n12",
    ):
        with socket.create_connection((HOST, server.server_port)) as connection:
            connection.sendall(request)
    long = urllib.request.Request(f"{server.address}edit", b"1" * (MOST_BYTES + 1))
    with pytest.raises((urllib.error.HTTPError, ConnectionError, urllib.error.URLError)):
        urllib.request.urlopen(long)
    assert status(server.address) == 200
    assert "Traceback" not in capsys.readouterr().err


def test_a_port_that_is_taken(server: Server) -> None:
    with pytest.raises(UsageError, match=r"--port must be one that is free; got \d+: .*; leave it out"):
        Server(server.live, server.server_port)
