"""The live page: its answers, and who gets them."""

import base64
import hashlib
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
from newfound.review.review import Review
from newfound.review.server import (
    HOST,
    IDLE_SECONDS,
    MOST_BYTES,
    MOST_WAITING,
    PICTURES,
    Handler,
    Live,
    Server,
)
from tests.review.test_page import facts, grey, some_run


@pytest.fixture
def live(tmp_path: Path) -> Live:
    """Forty images in two novel classes, nothing edited yet."""
    return Live(some_run(tmp_path / "run"), grey)


def body(live: Live, **edit: Any) -> bytes:
    """An edit of what the page shows now."""
    return json.dumps(edit | {"seen": len(Review(live.folder).log)}).encode()


def post(live: Live, **edit: Any) -> None:
    answer = live.post(body(live, **edit))
    assert (answer.status, answer.content) == (HTTPStatus.NO_CONTENT, b"")


def test_the_page_links_to_its_pictures(live: Live) -> None:
    text = live.get("").content.decode()
    assert "http" not in text
    assert "data:image" not in text
    assert facts(text)["pictures"] is None
    assert "<i>bee" not in text
    for what, side in PICTURES.items():
        answer = live.get(f"{what}/7")
        with Image.open(BytesIO(answer.content)) as image:
            assert (answer.kind, image.size, image.getpixel((0, 0))) == ("image/jpeg", (side, side // 2), 7)
        assert answer.caching.startswith("private")
    assert live.get("").caching == "no-store"


@pytest.mark.parametrize(
    "path", ["image/40", "image/-1", "thumbnail/40", "image/", "class/a", "edit", "../x", "/"]
)
def test_other_paths(live: Live, path: str) -> None:
    assert live.get(path).status == HTTPStatus.NOT_FOUND


def test_the_images_of_a_class_the_least_confident_first(live: Live) -> None:
    found = json.loads(live.get("class/3").content)
    given = Review(live.folder).assignments
    rows = [row for row, _, _ in found]
    assert sorted(rows) == np.flatnonzero(given.ids == 3).tolist()
    assert (np.diff(given.confidence[rows]) >= 0).all()
    assert found[0] == [rows[0], given.images[rows[0]], pytest.approx(given.confidence[rows[0]])]
    assert json.loads(live.get("class/99").content) == json.loads(live.get("class/-1").content) == []


def test_every_edit(live: Live) -> None:
    post(live, verb="rename", names={"novel-1": "<wasp>"})
    assert "&lt;wasp&gt;" in live.get("").content.decode()
    row = int(np.flatnonzero(Review(live.folder).ids == 3)[0])
    post(live, verb="move", into="<wasp>", rows=[row])
    assert Review(live.folder).ids[row] == 2
    post(live, verb="split", name="novel-2")
    assert list(Review(live.folder).names.values())[2:5] == ["<wasp>", "novel-2", "novel-2-2"]
    post(live, verb="merge", into="ant", others=["novel-2-2"])
    assert 'data-act="accept"' not in live.get("").content.decode()  # merging has settled their class
    post(live, verb="accept")
    assert Review(live.folder).accepted.any()
    post(live, verb="undo")
    post(live, verb="undo")
    assert list(Review(live.folder).names.values())[2:5] == ["<wasp>", "novel-2", "novel-2-2"]


def test_an_impossible_edit_is_explained(live: Live) -> None:
    answer = live.post(body(live, verb="rename", names={"novel-3": "wasp"}))
    assert answer.status == HTTPStatus.CONFLICT
    assert b"Unknown class 'novel-3'" in answer.content
    assert not live.folder.edits.exists()


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "[" * 100_000, "\ud800", '{"verb": "export", "seen": 0}', '{"verb": "undo"}'),
        '{"verb": "move", "into": "ant", "rows": ["1"], "seen": 0}',
    ],
)
def test_nonsense_is_refused(live: Live, text: str) -> None:
    assert live.post(text.encode("utf-8", "surrogatepass")).status == HTTPStatus.BAD_REQUEST
    assert not live.folder.edits.exists()


def test_edits_of_others_are_seen(live: Live) -> None:
    live.get("")
    before = body(live, verb="undo")
    Review(live.folder).rename({"novel-1": "wasp"})
    answer = live.post(before)
    assert (answer.status, answer.content[:22]) == (HTTPStatus.CONFLICT, b"The classes were edite")
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


def test_only_the_secret_address_is_answered(server: Server) -> None:
    edit = body(server.live, verb="rename", names={"novel-1": "wasp"})
    root = server.address.removesuffix(f"{server.secret}/")
    assert root.startswith("http://127.0.0.1:")
    for wrong in (root, f"{root}edit", f"{root}{server.secret}", f"{root}secret/", f"{root}secret/edit"):
        assert status(wrong) == status(wrong, edit) == 404
    assert not server.live.folder.edits.exists()
    assert status(server.address) == status(f"{server.address}image/3?again") == 200
    assert status(f"{server.address}image/3", edit) == 404
    assert status(f"{server.address}edit", edit) == 204
    assert Review(server.live.folder).names[2] == "wasp"


def test_a_run_that_was_damaged_in_the_meantime(server: Server) -> None:
    undo = body(server.live, verb="undo")
    server.live.folder.edits.mkdir()
    assert status(server.address) == 500
    server.live.folder.results.unlink()
    assert status(server.address) == 500
    assert status(f"{server.address}edit", undo) == 409


def test_whatever_goes_wrong_is_answered(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.review.server.live_page", lambda *given: given[99])
    assert status(server.address) == 500


def test_edits_do_not_wait_for_pictures(server: Server) -> None:
    with server.picture_lock:
        assert status(f"{server.address}edit", body(server.live, verb="undo")) == 409
        assert status(server.address) == status(f"{server.address}class/2") == 200


def test_one_picture_is_made_at_a_time(server: Server) -> None:
    """For a large one takes much memory."""
    with ThreadPoolExecutor(1) as pool:
        with server.picture_lock:
            asked = pool.submit(status, f"{server.address}image/0")
            with pytest.raises(TimeoutError):
                asked.result(0.2)
        assert asked.result() == 200


def test_of_simultaneous_edits_one_is_made(server: Server) -> None:
    edits = [body(server.live, verb="rename", names={"novel-1": f"wasp {each}"}) for each in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda edit: status(f"{server.address}edit", edit), edits))
    assert sorted(found) == [204] + [409] * 7
    assert len(Review(server.live.folder).log) == 1


def test_browsers_that_close_the_connection_or_send_nonsense(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for request in (b"", b"GET ", b"POST / HTTP/1.0\r\nContent-Length: 9\r\n\r\n12"):
        with socket.create_connection((HOST, server.server_port)) as connection:
            connection.sendall(request)
    long = urllib.request.Request(f"{server.address}edit", b"1" * (MOST_BYTES + 1))
    with pytest.raises((urllib.error.HTTPError, ConnectionError, urllib.error.URLError)):
        urllib.request.urlopen(long)
    assert status(server.address) == 200
    assert "Traceback" not in capsys.readouterr().err


def asked(server: Server, headers: str = "", method: str = "GET", path: str | None = None) -> bytes:
    """The answer to a request with these lines."""
    request = f"{method} /{server.secret if path is None else path}/ HTTP/1.0\r\n{headers}\r\n"
    with socket.create_connection((HOST, server.server_port), timeout=5) as connection:
        connection.sendall(request.encode())
        return b"".join(iter(lambda: connection.recv(2**16), b""))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ("Host: 127.0.0.1:80\r\n", 200),
        ("Host: localhost:9000\r\n", 200),
        ("Host: localhost\r\nOrigin: http://localhost\r\n", 200),
        ("", 404),
        ("Host: evil.example\r\n", 404),
        ("Host: localhost.evil.example\r\n", 404),
        ("Host: localhost\r\nOrigin: http://evil.example\r\n", 404),
        ("Host: localhost\r\nOrigin: null\r\n", 404),
    ],
)
def test_only_pages_of_this_computer_are_answered(server: Server, headers: str, code: int) -> None:
    """A name that an attacker resolves to this computer, or a page of theirs that knows the secret."""
    assert asked(server, headers).split()[1] == str(code).encode()


def test_the_page_runs_its_own_script_alone(server: Server) -> None:
    with urllib.request.urlopen(server.address) as answer:
        policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert b"Content-Security-Policy: default-src 'none'" in asked(server)


def test_a_body_is_not_read_without_the_secret(server: Server) -> None:
    """The answer comes although the body never does."""
    headers = "Host: localhost\r\nContent-Length: 1000\r\n"
    assert asked(server, headers, "POST", "wrong").split()[1] == b"404"


def test_idle_connections_do_not_lock_the_owner_out(server: Server) -> None:
    idle = [socket.create_connection((HOST, server.server_port)) for _ in range(MOST_WAITING + 8)]
    assert status(server.address) == 200
    assert len(server.waiting) <= MOST_WAITING
    for connection in idle:
        connection.close()


def test_a_connection_without_a_request_ends(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Handler.timeout == IDLE_SECONDS
    monkeypatch.setattr(Handler, "timeout", 0.1)
    with socket.create_connection((HOST, server.server_port), timeout=5) as connection:
        assert connection.recv(1) == b""


def test_a_port_that_is_taken(server: Server) -> None:
    with pytest.raises(UsageError, match="Cannot serve on port"):
        Server(server.live, server.server_port)
