"""A page on which classes are edited: what it answers, to whom, and what its script sends."""

import json
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import newfound.report
from newfound.core.errors import UsageError
from newfound.engine.files import write_json
from newfound.experiment import Folder
from newfound.experiment.assignments import Assignments
from newfound.report.live import EDITS, Live, Server
from newfound.review.review import Review
from tests.report.test_page import RESULTS, pile

NODE = shutil.which("node")
SCRIPT = Path(newfound.report.__file__).with_name("live.js")


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


def post(live: Live, **edit: Any) -> None:
    answer = live.post(json.dumps(edit).encode())
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
        lambda folder, images: np.eye(len(images), 4, dtype=np.float32),
    )
    post(live, verb="split", name="novel-2")
    assert list(live.review().names.values())[2:] == ["<wasp>", "novel-2", "novel-2-2"]
    post(live, verb="merge", into="ant", others=["novel-2-2"])
    post(live, verb="undo")
    assert list(live.review().names.values())[2:] == ["<wasp>", "novel-2", "novel-2-2"]
    assert set(EDITS) == {"rename", "move", "split", "merge", "undo"}


def test_an_edit_that_cannot_be_made_is_told(live: Live) -> None:
    answer = live.post(b'{"verb": "rename", "names": {"novel-3": "wasp"}}')
    assert answer.status == HTTPStatus.CONFLICT
    assert b"unknown class 'novel-3'" in answer.content
    assert not live.folder.edits.exists()


@pytest.mark.parametrize(
    "body",
    [
        *("", "1", "[]", "{}", '{"verb": "export"}', '{"verb": "rename"}', '{"verb": "rename", "names": 3}'),
        *(
            '{"verb": "rename", "names": {"novel-1": 3}}',
            '{"verb": "merge", "into": 2, "others": ["novel-1"]}',
        ),
        *('{"verb": "move", "into": "ant", "rows": [40]}', '{"verb": "move", "into": "ant", "rows": ["a"]}'),
        *('{"verb": "move", "into": "ant", "rows": [-1]}', '{"verb": "split", "name": null}', "\ud800"),
    ],
)
def test_nonsense_is_refused(live: Live, body: str) -> None:
    answer = live.post(body.encode("utf-8", "surrogatepass"))
    assert answer.status == HTTPStatus.BAD_REQUEST
    assert not live.folder.edits.exists()


def test_edits_of_others_are_seen(live: Live) -> None:
    live.get("")
    Review.open(live.folder.path).rename({"novel-1": "wasp"})
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
    edit = json.dumps({"verb": "rename", "names": {"novel-1": "wasp"}}).encode()
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
    server.live.folder.results.unlink()
    assert status(server.address) == 500
    assert status(f"{server.address}edit", b'{"verb": "undo"}') == 409


def test_a_port_that_is_taken(server: Server) -> None:
    with pytest.raises(UsageError, match=r"--port must be one that is free; got \d+: .*; leave it out"):
        Server(server.live, server.server_port)


DOM = """
const listeners = {}, sent = [];
const listen = name => (kind, call) => listeners[`${name} ${kind}`] = call;
const node = (name, more) => ({addEventListener: listen(name), ...more});
const nodes = {said: node("said"), into: node("into"), undo: node("undo"), picked: node("picked")};
const field = node("field", {dataset: {class: "novel-1"}, value: ""});
const image = {dataset: {row: "4"}, matches: () => true, classList: {toggle: (_, on) => on}};
globalThis.document = {
  getElementById: id => nodes[id],
  querySelectorAll: what => what.startsWith("input") ? [field] : what.startsWith("button") ?
    [node("split", {dataset: {split: "novel-2"}})] : what.startsWith("img") ? [image] : [],
  addEventListener: listen("page"),
};
globalThis.location = {reload: () => sent.push("reload")};
globalThis.fetch = async (where, what) => (sent.push([where, JSON.parse(what.body)]), answer);
let answer = {ok: true};
const names = ["ant", "novel-1", "novel-2"];
"""


def sent(actions: str) -> list[Any]:
    """What the script sends to the server, and what it says in the end."""
    after = "setTimeout(() => console.log(JSON.stringify([...sent, nodes.said.textContent ?? null])))"
    script = f"{DOM}\n{SCRIPT.read_text(encoding='utf-8')}\n{actions}\n{after}"
    done = subprocess.run([str(NODE), "-e", script], capture_output=True, text=True, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(NODE is None, reason="node, which runs JavaScript, is not installed")
@pytest.mark.parametrize(
    ("actions", "edit"),
    [
        (
            'field.value = " wasp "; listeners["field keydown"]({key: "Enter"})',
            {"verb": "rename", "names": {"novel-1": "wasp"}},
        ),
        (
            'field.value = "ant"; listeners["field keydown"]({key: "Enter"})',
            {"verb": "merge", "into": "ant", "others": ["novel-1"]},
        ),
        ('listeners["split click"]()', {"verb": "split", "name": "novel-2"}),
        ('listeners["undo click"]()', {"verb": "undo"}),
        (
            'listeners["page click"]({target: image}); nodes.into.value = "ant"; '
            'listeners["into keydown"]({key: "Enter"})',
            {"verb": "move", "into": "ant", "rows": [4]},
        ),
    ],
    ids=["rename", "merge", "split", "undo", "move"],
)
def test_what_the_script_sends(actions: str, edit: dict[str, Any]) -> None:
    assert sent(actions) == [["edit", edit], "reload", None]
    refusal = 'answer = {ok: false, text: async () => "no"}; '
    assert sent(refusal + actions) == [["edit", edit], "no"]


@pytest.mark.skipif(NODE is None, reason="node, which runs JavaScript, is not installed")
@pytest.mark.parametrize(
    ("typed", "key"), [("", "Enter"), ("  ", "Enter"), ("novel-1", "Enter"), ("wasp", "p")]
)
def test_no_name_sends_nothing(typed: str, key: str) -> None:
    assert sent(f'field.value = "{typed}"; listeners["field keydown"]({{key: "{key}"}})') == [None]
