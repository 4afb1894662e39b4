"""The scripts of the page, run by node: live.js on a mock of a browser, naming.js with its commands."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import newfound.review
from newfound.review.review import Review
from tests.review.runs import logits_of, write_run

LIVE, NAMING = (
    Path(newfound.review.__file__).with_name(name).read_text(encoding="utf-8")
    for name in ("live.js", "naming.js")
)
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node, which runs JavaScript, is not installed")
PAGE = """
const listeners = {}, sent = [], strip = [], session = {};
const listen = name => (kind, call) => listeners[`${name} ${kind}`] = call;
const node = (name, more) => ({...more, addEventListener: listen(name)});
const nodes = {};
for (const id of ["message", "into", "undo", "accept", "selected"]) nodes[id] = node(id);
const field = node("field", {dataset: {class: "novel-1"}, value: ""});
const image = {dataset: {row: "4"}, matches: () => true, classList: {toggle: (_, on) => image.selected = on}};
const appended = {append: each => strip.push(each.src)};
const there = {
  "input[data-class]": [field],
  "button[data-split]": [node("split", {dataset: {split: "novel-2"}})],
  "details[data-all]": [node("all", {dataset: {all: "2"}, querySelector: () => appended})],
  'img[data-row="4"]': [image],
};
globalThis.document = node("page", {
  getElementById: id => nodes[id], querySelectorAll: what => there[what] ?? [], querySelector: () => null,
});
globalThis.location = {reload: () => sent.push("reload"), pathname: "/secret/"};
globalThis.sessionStorage = {getItem: key => session[key], setItem: (key, value) => session[key] = value};
globalThis.Image = class { dataset = {}; classList = {toggle: () => {}} };
globalThis.fetch = async (where, what) => (sent.push(what ? [where, JSON.parse(what.body)] : where), answer);
let answer = {ok: true, text: async () => "", json: async () => [{row: 3, file: "c"}, {row: 5, file: "e"}]};
const names = ["ant", "novel-1", "novel-2", "e\u0301"], seen = 7;
const enter = (name, more) => listeners[name + " keydown"]({key: "Enter", ...more});
"""
END = """

setTimeout(() => console.log(JSON.stringify({sent, strip, session, shown: message.textContent})), 5);
"""


def after(actions: str, before: str = "") -> dict[str, Any]:
    """What was sent, shown and stored."""
    script = "\n".join([PAGE, before, LIVE, actions, END])
    done = subprocess.run([str(NODE), "-e", script], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


CLICK = 'listeners["page click"]({target: image})'
EDITS: dict[str, dict[str, Any]] = {
    'field.value = " wasp "; enter("field")': {"verb": "rename", "names": {"novel-1": "wasp"}},
    'field.value = "ant"; enter("field")': {"verb": "merge", "into": "ant", "others": ["novel-1"]},
    'field.value = "\u00e9"; enter("field")': {"verb": "merge", "into": "e\u0301", "others": ["novel-1"]},
    'listeners["split click"]()': {"verb": "split", "name": "novel-2"},
    'listeners["undo click"]()': {"verb": "undo"},
    'listeners["accept click"]()': {"verb": "accept"},
    f'{CLICK}; nodes.into.value = "ant"; enter("into")': {"verb": "move", "into": "ant", "rows": [4]},
}


@pytest.mark.parametrize(("actions", "edit"), EDITS.items(), ids=[edit["verb"] for edit in EDITS.values()])
def test_every_edit(actions: str, edit: dict[str, Any]) -> None:
    sent = ["edit", edit | {"seen": 7}]
    assert after(actions)["sent"] == [sent, "reload"]
    refused = after(actions, 'answer = {ok: false, text: async () => "no"};')
    assert (refused["sent"], refused["shown"]) == ([sent], "no")
    alone = after(actions, "fetch = async () => { throw new Error() };")
    assert (alone["sent"], alone["shown"]) == ([], "No answer. Is newfound review still running?")


def test_one_at_a_time() -> None:
    assert len(after('listeners["undo click"](); listeners["undo click"]()')["sent"]) == 2  # and the reload


@pytest.mark.parametrize(
    "actions",
    [
        *('field.value = "  "; enter("field")', 'field.value = "novel-1"; enter("field")'),
        'field.value = "w"; enter("field", {isComposing: true})',
    ],
)
def test_incomplete_names_are_not_sent(actions: str) -> None:
    assert after(actions)["sent"] == []


def test_the_selection_and_typed_names_survive_an_edit() -> None:
    kept = after(f'{CLICK}; field.value = "w"; listeners["undo click"]()')["session"]
    assert kept == {"selected/secret/": "[4]", "typed/secret/": '[["novel-1","w"]]'}
    again = after("sent.push(field.value, image.selected)", f"Object.assign(session, {json.dumps(kept)});")
    assert again["sent"] == ["w", True]
    stored = after('field.value = "w"; enter("field")')["session"]
    assert stored == {"selected/secret/": "[]", "typed/secret/": "[]"}


def test_all_images_of_a_class_are_loaded_once() -> None:
    found = after('listeners["all toggle"](); listeners["all toggle"]()')
    assert (found["sent"], found["strip"]) == (["class/2"], ["image/3", "image/5"])
    failed = after('listeners["all toggle"]()', "answer = {ok: false};")
    assert failed["shown"] == "Cannot load the images. Reload the page."


def commands(typed: dict[str, str], run: str = "runs/my run") -> list[list[str]]:
    """The words of each command."""
    call = f"commands({json.dumps(run)}, ['ant', \"bee's\"], {json.dumps(list(typed.items()))})"
    script = f"{NAMING}\nconsole.log({call})"
    done = subprocess.run([str(NODE), "-e", script], capture_output=True, text=True, check=True)
    return [shlex.split(line) for line in done.stdout.splitlines() if line]


def named(folder: Path, *typed: str) -> dict[str, list[int]]:
    """Class → images, once the commands have been followed for names typed for novel-1 to novel-4."""
    review = Review(write_run(folder, logits_of([0, 1, 2, 3]), ["ant", "bee's"]))
    fields = dict(zip([f"novel-{number}" for number in range(1, 5)], typed, strict=True))
    for program, verb, run, edit, *words in commands(fields):
        assert (program, verb, run) == ("newfound", "classes", "runs/my run")
        if edit == "rename":
            review.rename(dict(word.split("=") for word in words))
        else:
            review.merge(*words)
    return {each.name: each.rows.tolist() for each in review.classes}


def test_no_names() -> None:
    assert commands({"n1": "", "n2": "  ", "n3": "n3", "n4": ""}) == []


def test_names_that_look_like_options() -> None:
    (words,) = commands({"n1": "", "-n2": "n1"})
    assert words == ["newfound", "classes", "runs/my run", "merge", "--", "n1", "-n2"]


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (["sea otter", "it's", "", "ä/b"], {"sea otter": [0], "it's": [1], "novel-3": [2], "ä/b": [3]}),
        (["zebra", "", "zebra", "zebra"], {"zebra": [0, 2, 3], "novel-2": [1]}),
        (["bee's", "ant", "ant", ""], {"ant": [1, 2], "bee's": [0], "novel-4": [3]}),
        (["cafe\u0301", "café", "", ""], {"café": [0, 1], "novel-3": [2], "novel-4": [3]}),
        (["novel-2", "", "", ""], {"novel-2": [0, 1], "novel-3": [2], "novel-4": [3]}),
        (["novel-2", "novel-3", "zebra", "zebra"], {"novel-2": [0], "novel-3": [1], "zebra": [2, 3]}),
    ],
    ids=["new", "same", "known", "composed", "taken", "given up"],
)
def test_names(tmp_path: Path, typed: list[str], wanted: dict[str, list[int]]) -> None:
    assert named(tmp_path, *typed) == wanted
