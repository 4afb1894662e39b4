"""The verbs by which a person names, merges, splits and exports the classes of a run."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from newfound.cli.options import RunFolder
from newfound.cli.output import output
from newfound.core.errors import UsageError
from newfound.experiment import Folder
from newfound.review.edits import Edit, Merge, Move, Rename, Split
from newfound.review.export import Format, write_export
from newfound.review.files import How
from newfound.review.review import Review


def classes(run: RunFolder) -> None:
    """List the classes that a run found, as they are after your edits."""
    _show(Review.open(run))


def rename(
    run: RunFolder,
    names: Annotated[list[str], typer.Argument(help="OLD=NEW, one or more.")],
) -> None:
    """Give classes that were found names of their own."""
    review = Review.open(run)
    pairs = [_pair(each) for each in names]
    if len({old for old, _ in pairs}) < len(pairs):
        raise UsageError(f"a class takes one name; got {' '.join(names)}; name each once")
    review.rename(dict(pairs))
    _show(review)


def merge(
    run: RunFolder,
    into: Annotated[str, typer.Argument(help="The class that stays, found or known.")],
    others: Annotated[list[str], typer.Argument(help="The classes that become part of it.")],
) -> None:
    """Make classes that were found part of another one."""
    review = Review.open(run)
    review.merge(into, *others)
    _show(review)


def split(
    run: RunFolder,
    name: Annotated[str, typer.Argument(help="The class.")],
    number: Annotated[int, typer.Option("--into", help="How many parts.")] = 2,
) -> None:
    """Let a class that was found fall into parts, by k-means on the features of its images."""
    review = Review.open(run)
    review.split(name, number)
    _show(review)


def move(
    run: RunFolder,
    into: Annotated[str, typer.Argument(help="The class, found or known.")],
    images: Annotated[
        list[str], typer.Argument(help="Images of the pile, by path or by its end: a name, or folder/name.")
    ],
) -> None:
    """Put single images of the pile into another class."""
    review = Review.open(run)
    review.move(into, *images)
    _show(review)


def undo(run: RunFolder) -> None:
    """Take back the last edit; again, the one before it."""
    review = Review.open(run)
    before = review.names
    print(f"undone: {_described(review.undo(), before | review.names)}")
    _show(review)


def export(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(help="A new file, or a new folder.")],
    *,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="What to write; else .csv, .json and .parquet tell, or folders."),
    ] = None,
    link: Annotated[
        How | None, typer.Option(help="How images come into folders; else they are copied.")
    ] = None,
) -> None:
    """Write the images with their classes: a table, COCO, or a folder for each class."""
    for name, folder in write_export(Review.open(run), out, form, link).items():
        print(f"class {name} is in {out / folder}")
    print(f"written: {out}")


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals:
        raise UsageError(f"a rename must be OLD=NEW; got {text!r}; for example novel-1=zebra")
    return old, new


def _described(edit: Edit, names: dict[int, str]) -> str:
    if isinstance(edit, Rename):
        return f"the name{'s' * (len(edit.names) > 1)} {', '.join(edit.names)}"
    if isinstance(edit, Merge):
        return f"the merge of {', '.join(names[key] for key in edit.ids)} into {names[edit.into]}"
    if isinstance(edit, Move):
        return f"the move of {len(edit.rows)} image{'s' * (len(edit.rows) > 1)} into {names[edit.into]}"
    assert isinstance(edit, Split)
    return f"the split of {names[edit.id]} into {len(edit.parts)}"


def _show(review: Review) -> None:
    table = Table(
        "id", "class", Column("images", justify="right"), Column("sure", justify="right"), box=box.SIMPLE_HEAD
    )
    for each in review.classes:
        name = f"{each.name} (known)" if each.known else each.name
        table.add_row(
            str(each.id), name, f"{len(each.rows):,}", f"{each.confidence:.0%}" if len(each.rows) else ""
        )
    output().print(table)
    known = [name for key, name in review.names.items() if key < review.num_known]
    output().print(f"known classes: {', '.join(known)}")
    if _page_is_old(review.folder) and not review.folder.source().arrays:
        print(f"newfound report {review.folder.quoted} draws the page anew")


def _page_is_old(folder: Folder) -> bool:
    """Whether it does not show the last edit, if there was one."""
    if not (folder.edits.exists() and folder.report.exists()):
        return folder.edits.exists()
    return folder.report.stat().st_mtime_ns < folder.edits.stat().st_mtime_ns
