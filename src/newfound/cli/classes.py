"""The verbs that correct and export the classes of a run; none of them needs torch."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from newfound.cli.console import console
from newfound.cli.options import RunFolder
from newfound.core.errors import UsageError, check_known
from newfound.review.edits import Accept, Edit, Merge, Move, Rename, Split
from newfound.review.export import write_export
from newfound.review.review import Review

ACTIONS = {
    "rename": "OLD=NEW...",
    "merge": "INTO OTHERS...",
    "split": "NAME [--into N]",
    "move": "INTO IMAGES...",
    "accept": "[NAMES...]",
    "undo": "",
}
"""Action → its arguments."""


def classes(
    run: RunFolder,
    action: Annotated[
        str | None,
        typer.Argument(
            help="rename, merge, split, move, accept or undo; without one, the classes are listed."
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="; ".join(f"{action} {words}" for action, words in ACTIONS.items() if words)),
    ] = None,
    *,
    into: Annotated[int | None, typer.Option(help="The number of parts of a split, by default 2.")] = None,
) -> None:
    """List the classes of a run, or edit them: rename, merge, split, move, accept, undo."""
    words = arguments or []
    if action is not None:
        _check_call(action, words, into)
    review = Review.open(run)
    if action == "rename":
        review.rename(dict(word.split("=", 1) for word in words))
    elif action == "merge":
        review.merge(words[0], *words[1:])
    elif action == "split":
        review.split(words[0], into or 2)
    elif action == "move":
        review.move(words[0], *words[1:])
    elif action == "accept":
        review.accept(*words)
    elif action == "undo":
        before = review.names
        console().print(f"undone: {_described(review.undo(), before | review.names)}")
    _show(review)
    if action is not None and review.folder.request().source.arrays is None:
        console().print(f"`newfound report {review.folder.quoted}` updates the page.")


def _check_call(action: str, words: list[str], into: int | None) -> None:
    """Refuse arguments that do not fit the action."""
    old_names = {word.partition("=")[0] for word in words}
    fits = {
        "rename": 0 < len(old_names) == len(words) and all("=" in word for word in words),
        "merge": len(words) > 1,
        "split": len(words) == 1,
        "move": len(words) > 1,
        "accept": True,
        "undo": not words,
    }
    check_known("action", action, ACTIONS)
    if not fits[action] or (into is not None and action != "split"):
        raise UsageError(f"Usage: newfound classes RUN {action} {ACTIONS[action]}".rstrip())


def _described(edit: Edit, names: dict[int, str]) -> str:
    """An edit in words."""
    if isinstance(edit, Rename):
        return f"rename to {', '.join(edit.names)}"
    if isinstance(edit, Merge):
        return f"merge of {', '.join(names[key] for key in edit.ids)} into {names[edit.into]}"
    if isinstance(edit, Move):
        return f"move of {len(edit.rows)} image{'s' * (len(edit.rows) > 1)} to {names[edit.into]}"
    if isinstance(edit, Accept):
        return f"acceptance of {len(edit.rows)} image{'s' * (len(edit.rows) > 1)}"
    assert isinstance(edit, Split)
    return f"split of {names[edit.id]} into {len(edit.parts)}"


def _show(review: Review) -> None:
    table = Table(
        *("id", "class", Column("images", justify="right"), Column("accepted", justify="right")),
        Column("confidence", justify="right"),
        box=box.SIMPLE_HEAD,
    )
    for each in review.classes:
        name = f"{each.name} (known)" if each.kind == "known" else each.name
        confidence = f"{each.confidence:.0%}" if len(each.rows) and each.kind != "unsorted" else ""
        accepted = int(review.accepted[each.rows].sum())
        table.add_row(str(each.id), name, f"{len(each.rows):,}", f"{accepted:,}" * (accepted > 0), confidence)
    console().print(table)
    console().print(f"Known classes: {', '.join(review.found[key] for key in review.known)}")


def export(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(help="The new file or folder.")],
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="csv, json, parquet, coco, folders, label-studio, fiftyone or imagefolder; by default the "
            "suffix of OUT decides, and without one it is folders.",
        ),
    ] = None,
    link: Annotated[
        str | None, typer.Option(help="symlink or hardlink: link the images instead of copying them.")
    ] = None,
) -> None:
    """Export the pile with its classes: as a table, as folders, or for another tool."""
    for name, folder in write_export(Review.open(run), out, form, link).items():
        console().print(f"Class {name} is in {out / folder}.")
    console().print(f"written: {out}")
