"""Files named in a CSV or in a list."""

import csv
import os
from io import StringIO
from pathlib import Path

from newfound.core.errors import DataError

_SUFFIXES = ".jpg .jpeg .jpe .jfif .png .apng .gif .webp .bmp .tif .tiff .ppm .pgm .pbm .pnm .jp2 .tga .avif"
SUFFIXES = frozenset(_SUFFIXES.split())
PATH_COLUMNS, LABEL_COLUMNS = ("path", "image"), ("label", "class")
"""What the header of a CSV may call its columns."""
File = tuple[str, str]
"""A path and its label, which is empty where there is none."""


def is_image(path: str) -> bool:
    """By its suffix."""
    return os.path.splitext(path)[1].lower() in SUFFIXES


def read_list(source: Path) -> list[File]:
    """A path in each line; relative ones start at the folder of the list."""
    return [(_beside(source, line.strip()), "") for line in _text(source).split("\n") if line.strip()]


def read_csv(source: Path) -> list[File]:
    """Rows of path and label, or of the columns a header calls so; relative paths start at its folder.

    An assignments.csv of ours, with image and class, reads too.
    """
    rows = [row for row in _rows(source) if any(cell.strip() for cell in row)]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    at_path, at_label = 0, 1
    if (named := _column(source, header, PATH_COLUMNS)) is not None:
        label = _column(source, header, LABEL_COLUMNS)
        at_path, at_label = named, len(header) if label is None else label
        rows = rows[1:]
    elif rows and not _names_a_file(source, rows[0][0]):
        raise DataError(
            f"{source} must have a column {' or '.join(PATH_COLUMNS)}, or rows that begin with a path; got "
            f"the first row {','.join(rows[0])!r}; name the column of the paths"
        )
    if not rows:
        raise DataError(
            f"{source} must hold rows of path and label; got none; the label of an image may be empty"
        )
    files = []
    for row in rows:
        path = row[at_path].strip() if at_path < len(row) else ""
        if not path:
            raise DataError(f"{source}: each row must name a file; got {','.join(row)!r}; add its path")
        files.append((_beside(source, path), row[at_label].strip() if at_label < len(row) else ""))
    return files


def _column(source: Path, header: list[str], names: tuple[str, ...]) -> int | None:
    """The place of the first of these names that a header has, if it has one."""
    name = next((name for name in names if name in header), None)
    if name is None:
        return None
    if header.count(name) > 1:
        raise DataError(
            f"{source} must have one column {name}; got the header {','.join(header)!r}; rename the others"
        )
    return header.index(name)


def _rows(source: Path) -> list[list[str]]:
    """The rows of a CSV."""
    reader = csv.reader(StringIO(_text(source), newline=""), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise DataError(
            f"{source} must be a table with commas between cells; got: {error}, at line {reader.line_num}; "
            "look for a quotation mark that is never closed"
        ) from None
    first = rows[0][0] if rows and len(rows[0]) == 1 else ""
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if separator in first and not _names_a_file(source, first):
            raise DataError(
                f"{source} must have commas between cells; got {name}, first {first!r}; save it with commas"
            )
    return rows


def _names_a_file(source: Path, cell: str) -> bool:
    """Whether the first cell of a table without known columns may be a path, which a heading is not."""
    path = cell.strip()
    return is_image(path) or os.path.isfile(_beside(source, path))


def _beside(source: Path, path: str) -> str:
    """Relative paths in a list start from the folder of the list."""
    return os.path.join(source.parent, path)


def _text(source: Path) -> str:
    try:
        text = source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise DataError(f"{source} must be a text file in UTF-8; got other bytes; save it as UTF-8")
    return text
