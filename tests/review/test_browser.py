"""The page in a real browser: keys, selection, dragging, lightbox, map, both themes, axe's checks."""

import re
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from newfound.data.images import StreamedImages
from newfound.review.page import write_page
from newfound.review.review import Review
from newfound.review.server import Live, Server
from newfound.run.folder import Folder
from newfound.run.trained import Pictures
from tests.browser import CHROMIUM, Browser
from tests.review.runs import logits_of, write_run

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no browser: neither chromium nor google-chrome is installed"
    ),
]
CLASSES = [0, 1, 2] * 10
"""The novel class of each image."""
CARD = '.card[data-place="{}"]'
"""Places: two known classes, three novel ones, the unsorted group."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    """Thirty photographs in three novel classes and two more that are unsorted."""
    files = [str(tmp_path / f"{row}.jpg") for row in range(32)]
    for row, file in enumerate(files):
        image = Image.new("RGB", (640, 480), ("teal", "maroon", "gold", "grey")[row % 3 if row < 30 else 3])
        ImageDraw.Draw(image).text((250, 150), str(row), "white", font_size=120)
        image.save(file)
    logits = 4 * logits_of([*CLASSES, 0, 1]) + np.random.default_rng(0).normal(size=(32, 5))
    return write_run(
        tmp_path / "run", logits, images=files, unsorted=[row >= 30 for row in range(32)], features=logits
    )


def pictures(run: Folder) -> Pictures:
    return Pictures(StreamedImages(Review(run).assignments.images, (48, 48)))


@pytest.fixture
def page(browser: Browser, run: Folder) -> Iterator[Browser]:
    """The live page of the run, after which nothing must have gone wrong in the browser."""
    with Server(Live(run, pictures(run))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        browser.call("Log.enable")
        browser.call("Runtime.enable")
        browser.look(1300, 1000)
        browser.open(server.address)
        browser.wait("data.live")
        browser.events.clear()
        yield browser
        server.shutdown()
    wrong = [each for name, each in browser.events if name in ("Runtime.exceptionThrown", "Log.entryAdded")]
    assert not [each for each in wrong if "favicon" not in str(each)]


def edited(page: Browser, count: int) -> None:
    """Wait until so many edits were made."""
    page.wait(f"data.seen === {count} && !busy")


def sizes(run: Folder) -> dict[str, int]:
    review = Review(run)
    return dict(Counter(review.names[key] for key in review.ids.tolist()))


def selected(page: Browser) -> list[int]:
    return sorted(page.value("[...selected]"))


FOCUS = "document.activeElement"


def test_keys(page: Browser, run: Folder) -> None:
    page.press("ArrowRight")
    assert page.value(f"{FOCUS}.dataset.place") == "2"
    page.press("ArrowRight", "ArrowRight", "ArrowLeft", "Enter")
    assert page.value(f"placeOf({FOCUS})") == 3
    rows = page.value(f"findAll('.picture', {FOCUS}.closest('.card')).map(rowOf)")
    page.press("ArrowRight", " ")
    page.press("ArrowRight", shift=True)
    assert selected(page) == sorted(rows[1:3])
    page.press("Escape", "n")
    assert page.value(f"{FOCUS}.matches('input')")
    page.call("Input.insertText", text="wasp")
    page.press("Enter")
    edited(page, 1)
    assert page.value(f"{FOCUS}.dataset.place") == "3"
    assert selected(page) == sorted(rows[1:3])
    page.press("v")
    page.call("Input.insertText", text="uns")
    page.press("Enter")
    edited(page, 2)
    assert selected(page) == []
    page.press("m", "ArrowDown", "Enter")
    edited(page, 3)
    assert sizes(run) == {"ant": 8, "novel-1": 10, "novel-3": 10, "unsorted": 4}
    page.press("u")
    edited(page, 4)
    assert sizes(run) == {"wasp": 8, "novel-1": 10, "novel-3": 10, "unsorted": 4}
    page.press("?")
    assert page.value("find('#keys').open")
    page.click("#letters")
    page.press("Escape", "u", "?")
    assert not page.value("find('#keys').open")
    edited(page, 4)


def test_selecting_and_dragging(page: Browser, run: Folder) -> None:
    first, second = f"{CARD.format(2)} .picture:nth-child(", f"{CARD.format(3)} .picture"
    page.click(f"{first}1)")
    page.click(f"{first}4)", shift=True)
    assert len(selected(page)) == 4
    page.drag(f"{first}2)", CARD.format(4))
    edited(page, 1)
    assert sizes(run) == {"novel-1": 6, "novel-2": 10, "novel-3": 14, "unsorted": 2}
    page.drag(second, CARD.format(5))
    edited(page, 2)
    assert sizes(run)["unsorted"] == 3
    page.drag(f"{CARD.format(2)} header", CARD.format(3))
    edited(page, 3)
    assert sizes(run) == {"novel-2": 15, "novel-3": 14, "unsorted": 3}
    page.click(f"{CARD.format(2)} [data-act=all]")
    page.wait("selected.size === 15")
    page.click("#selection [data-act=clear]")
    page.click(f"{CARD.format(2)} summary")
    page.wait(f"findAll('{CARD.format(2)} details .picture').length === 15")
    page.click(f"{CARD.format(2)} [data-act=split]")
    edited(page, 4)
    assert len(sizes(run)) == 4
    assert page.value(f"find('{CARD.format(2)} details').open")
    page.click("#undo")
    edited(page, 5)
    page.enter('input[aria-label="Name of novel-2"]', "bee")
    edited(page, 6)
    assert sizes(run) == {"bee": 15, "novel-3": 14, "unsorted": 3}


def test_what_is_typed_stays_and_a_refusal_is_shown(page: Browser, run: Folder) -> None:
    page.click('input[aria-label="Name of novel-1"]')
    page.call("Input.insertText", text="wasp")
    Review(run).rename({"novel-3": "gnat"})
    page.click(f"{CARD.format(3)} [data-act=split]")
    page.wait("message.textContent.startsWith('The classes were edited') && !busy")
    page.value("renew()")
    page.wait("data.seen === 1")
    assert page.value("find('input[aria-label=\"Name of novel-1\"]').value") == "wasp"
    page.enter('input[aria-label="Name of novel-1"]', "=")
    page.wait("message.textContent.includes('is not a class name') && !busy")
    page.events.clear()  # the browser logs answers that refuse


def test_the_lightbox(page: Browser) -> None:
    page.click(f"{CARD.format(2)} .picture", times=2)
    assert selected(page) == []
    page.wait("find('#lightbox').open && large.naturalWidth === 640")
    before = page.value("large.src")
    page.press("ArrowRight", "+", "+")
    page.wait("large.src.includes('/image/')")
    assert page.value("large.src") != before
    assert page.value("look.scale") == 2.25
    page.trace([(600, 500), (650, 520), (700, 540)])
    assert page.value("look.x") == 100
    page.press("0", "ArrowLeft")
    page.click("#lightbox [data-act=select]")
    assert selected(page) == [page.value("look.rows[0]")]
    page.press("Escape")
    assert page.value(f"rowOf({FOCUS})") == page.value("look.rows[0]")


def trace(page: Browser, *path: tuple[float, float]) -> None:
    """Draw with the mouse on the map."""
    page.at("#map canvas")
    x, y = page.value("canvas.getBoundingClientRect().x"), page.value("canvas.getBoundingClientRect().y")
    page.trace([(x + right, y + down) for right, down in path])


def test_the_map(page: Browser) -> None:
    page.click("#map [aria-label='Zoom in']")
    assert page.value("view.scale") == 1.5
    before = page.value("view.x")
    trace(page, (200, 200), (230, 200), (260, 200))
    assert page.value("view.x") == before + 60
    x, y = page.at("#map canvas")
    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-100)
    page.wait("view.scale > 1.5")
    page.press("0")
    assert page.value("view") == {"x": 0, "y": 0, "scale": 1}
    inside = page.value("data.points.filter(each => spot(each)[0] < 640).map(([row]) => row)")
    assert 3 < len(inside) < 29
    page.click("#lasso")
    trace(page, (12, 12), (640, 12), (640, 620), (12, 620))
    assert selected(page) == sorted(inside)
    page.click("#lasso")
    page.click("#selection [data-act=clear]")
    trace(page, page.value("spot(data.points[5])"))
    assert selected(page) == [page.value("data.points[5][0]")]


def test_names_on_the_map_hide_no_other(page: Browser) -> None:
    for crowded in ("spot", "() => [300, 200]"):
        boxes = page.value(f"label(data.points.map({crowded}), 'black', 'white')")
        assert len(boxes) == 3
        for at, (x, y, w, h) in enumerate(boxes):
            assert not any(x < u + s and u < x + w and y < v + t and v < y + h for u, v, s, t in boxes[:at])


def brightness(page: Browser) -> int:
    """Of the page's background."""
    return max(map(int, re.findall(r"\d+", page.value("getComputedStyle(document.body).backgroundColor"))))


def test_light_and_dark(page: Browser) -> None:
    assert brightness(page) > 200
    page.look(scheme="dark")
    assert brightness(page) < 50
    page.click("#theme")
    assert brightness(page) > 200
    page.value("window.reloading = true; location.reload()")
    page.wait("!window.reloading && document.readyState === 'complete' && typeof data === 'object'")
    assert brightness(page) > 200
    page.click("#theme")
    assert brightness(page) < 50
    page.value("localStorage.clear()")


def test_the_report_works_from_a_file(browser: Browser, run: Folder) -> None:
    write_page(Review(run), pictures(run))
    browser.look(1300, 1000)
    browser.open(run.report.as_uri())
    browser.wait("find('.picture img').naturalWidth === 160")
    assert browser.value("find('.picture img').naturalHeight") == 120
    browser.drag(f"{CARD.format(2)} header", CARD.format(3))
    assert browser.value("find('#commands').textContent").endswith("merge novel-2 novel-1")
    browser.click(".picture")
    browser.wait("large.naturalWidth === 640")
    browser.press("Escape", "ArrowRight", " ")
    browser.wait("look.at === 1")
    Path(Review(run).assignments.images[browser.value("look.rows[2]")]).unlink()
    browser.press("ArrowRight")
    browser.wait("large.naturalWidth === 160")
    browser.press("Escape")


AXE = """axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(
    found => found.violations.map(each => [each.id, each.nodes.map(node => node.html)]))"""


@pytest.mark.skipif(
    not find_spec("axe_core_python"), reason="axe-core-python, which has axe, is not installed"
)
def test_axe_finds_no_violations(page: Browser, run: Folder) -> None:
    spec = find_spec("axe_core_python")
    assert spec
    assert spec.origin
    axe = Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")

    def violations() -> Any:
        return page.call("Runtime.evaluate", expression=AXE, awaitPromise=True, returnByValue=True)["result"][
            "value"
        ]

    def check(*actions: str) -> None:
        page.value(axe)
        for scheme in ("light", "dark"):
            page.look(scheme=scheme)
            for action in ("0", *actions):
                page.value(action)
                assert violations() == [], (scheme, action)
                page.press("Escape")

    check("select([1, 2])", "enlarge(1, [1, 2])", "chooseMove()", "chooseMerge(2)", "keys['?']()")
    write_page(Review(run), pictures(run))
    page.open(run.report.as_uri())
    check("enlarge(1, [1, 2])", "chooseMerge(2)", "keys['?']()")
