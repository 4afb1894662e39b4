"""What the script of a live page does: it is run on a page of a few things that pass for a browser's."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import newfound.report

SCRIPT = Path(newfound.report.__file__).with_name("live.js").read_text(encoding="utf-8")
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node, which runs JavaScript, is not installed")
PAGE = """
const listeners = {}, sent = [], strip = [], session = {};
const listen = name => (kind, call) => listeners[`${name} ${kind}`] = call;
const node = (name, more) => ({...more, addEventListener: listen(name)});
const nodes = {said: node("said"), into: node("into"), undo: node("undo"), picked: node("picked")};
const field = node("field", {dataset: {class: "novel-1"}, value: ""});
const image = {dataset: {row: "4"}, matches: () => true, classList: {toggle: (_, on) => image.picked = on}};
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
const names = ["ant", "novel-1", "novel-2", "e\u0301te\u0301"], seen = 7;
const enter = (name, more) => listeners[name + " keydown"]({key: "Enter", ...more});
"""
END = """

setTimeout(() => console.log(JSON.stringify({sent, strip, session, said: said.textContent})), 5);
"""


def after(actions: str, before: str = "") -> dict[str, Any]:
    """What was sent, shown and kept."""
    script = "\n".join([PAGE, before, SCRIPT, actions, END])
    done = subprocess.run([str(NODE), "-e", script], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


EDITS: dict[str, dict[str, Any]] = {
    'field.value = " wasp "; enter("field")': {"verb": "rename", "names": {"novel-1": "wasp"}},
    'field.value = "ant"; enter("field")': {"verb": "merge", "into": "ant", "others": ["novel-1"]},
    'field.value = "\u00e9t\u00e9"; enter("field")': {
        "verb": "merge",
        "into": "e\u0301te\u0301",
        "others": ["novel-1"],
    },
    'listeners["split click"]()': {"verb": "split", "name": "novel-2"},
    'listeners["undo click"]()': {"verb": "undo"},
    'listeners["page click"]({target: image}); nodes.into.value = "ant"; enter("into")': {
        "verb": "move",
        "into": "ant",
        "rows": [4],
    },
}


@pytest.mark.parametrize(("actions", "edit"), EDITS.items(), ids=[edit["verb"] for edit in EDITS.values()])
def test_every_edit(actions: str, edit: dict[str, Any]) -> None:
    asked = ["edit", edit | {"seen": 7}]
    assert after(actions)["sent"] == [asked, "reload"]
    refused = after(actions, 'answer = {ok: false, text: async () => "no"};')
    assert (refused["sent"], refused["said"]) == ([asked], "no")
    alone = after(actions, "fetch = async () => { throw new Error() };")
    assert (alone["sent"], alone["said"]) == ([], "nobody answers; start newfound review again")


def test_one_at_a_time() -> None:
    assert len(after('listeners["undo click"](); listeners["undo click"]()')["sent"]) == 2  # and the reload


@pytest.mark.parametrize(
    "actions",
    [
        *('enter("field")', 'field.value = "  "; enter("field")', 'field.value = "novel-1"; enter("field")'),
        *(
            'field.value = "w"; enter("field", {key: "w"})',
            'field.value = "w"; enter("field", {isComposing: true})',
        ),
    ],
)
def test_what_is_no_name_yet(actions: str) -> None:
    assert after(actions)["sent"] == []


def test_what_was_picked_and_typed_outlives_an_edit() -> None:
    kept = after('listeners["page click"]({target: image}); field.value = "w"; listeners["undo click"]()')[
        "session"
    ]
    assert kept == {"picked/secret/": "[4]", "typed/secret/": '[["novel-1","w"]]'}
    again = after("sent.push(field.value, image.picked)", f"Object.assign(session, {json.dumps(kept)});")
    assert again["sent"] == ["w", True]
    named = after('field.value = "w"; enter("field")')["session"]
    assert named == {"picked/secret/": "[]", "typed/secret/": "[]"}


def test_all_images_of_a_class_are_asked_for_once() -> None:
    found = after('listeners["all toggle"](); listeners["all toggle"]()')
    assert (found["sent"], found["strip"]) == (["class/2"], ["image/3", "image/5"])
    failed = after('listeners["all toggle"]()', "answer = {ok: false};")
    assert failed["said"] == "the images cannot be had; load the page anew"
