"""Files that a user names, as folders, CSV or lists, and the image sets made of them."""

import csv
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path

from newfound.core.errors import DataError
from newfound.data.decode import Size, decode_all, decode_each
from newfound.data.images import ImageSet, ResidentImages, StreamedImages

RESIDENT_BYTES = 16 * 2**30
_SUFFIXES = ".jpg .jpeg .jpe .jfif .png .apng .gif .webp .bmp .tif .tiff .ppm .pgm .pbm .pnm .jp2 .tga .avif"
SUFFIXES = frozenset(_SUFFIXES.split())
PATH_COLUMNS, LABEL_COLUMNS = ("path", "image"), ("label", "class")
"""What the header of a CSV may call its columns."""
MOST_KINDS = 5
"""Kinds of files without images that are told apart."""
File = tuple[str, str]
"""A path and its label, which is empty where there is none."""


def open_images(
    paths: Sequence[str], size: Size, strict: bool
) -> tuple[ImageSet, list[int], tuple[str, ...]]:
    """Files → a set, the rows of `paths` in it, and the files left out; each file is decoded once to know."""
    images: ImageSet
    if is_resident(len(paths), size):
        pixels, kept, skipped = decode_all(paths, size, strict)
        images = ResidentImages(pixels, [paths[row] for row in kept])
    else:
        kept, skipped = decode_each(paths, size, strict, lambda row, image: None)
        images = StreamedImages([paths[row] for row in kept], size)
    if not kept:
        raise none_readable(skipped)
    return images, kept, skipped


def none_readable(failures: Sequence[str]) -> DataError:
    return DataError(
        f"some files must be readable images; got {len(failures)} and could read none, first {failures[0]}; "
        "check the files"
    )


def is_resident(count: int, size: Size) -> bool:
    """Whether so many images are kept in memory."""
    return 3 * count * size[0] * size[1] <= RESIDENT_BYTES


def image_files(folder: Path) -> list[str]:
    """Every image below `folder`, sorted; hidden files and folders and other kinds of file are ignored."""
    return sorted(path for path in _files(folder) if _is_image(path) and _is_utf8(path))


def other_kinds(source: Path) -> tuple[str, ...]:
    """What a folder holds besides images that can be used, a line for each of the commonest kinds."""
    files = list(_files(source)) if source.is_dir() else []
    kinds = Counter(_kind(path) for path in files if not (_is_image(path) and _is_utf8(path)))
    common = kinds.most_common(MOST_KINDS)
    lines = [f"{source}: {number:,} file{'s' * (number > 1)} {kind}" for kind, number in common]
    rest = kinds.total() - sum(number for _, number in common)
    return (*lines, f"{source}: {rest:,} files of other kinds, no images either") if rest else tuple(lines)


def _kind(path: str) -> str:
    """Why a file is not used, in words."""
    if not _is_utf8(path):
        return "whose name is not UTF-8; rename it"
    suffix = os.path.splitext(path)[1].lower()
    return f"{f'ending in {suffix}' if suffix else 'without a suffix'}, no kind of image that we read"


def _files(folder: Path) -> Iterator[str]:
    """The files below `folder`, hidden ones and those in hidden folders left out."""
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(where, name) for name in files if not name.startswith("."))


def _is_utf8(path: str) -> bool:
    """Whether the path can be written to a text file."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def labelled_files(source: Path) -> tuple[list[File], tuple[str, ...]]:
    """A folder with a folder for each class, or a CSV → files with labels, and what was left out and why."""
    expected = "a folder with one folder of images for each class, or a CSV"
    _check_exists(source, "labelled", expected)
    if source.is_file():
        if _is_image(source.name):
            raise DataError(
                f"the labelled images must be {expected}; got one image, {source}; "
                "give the folder above its class folder"
            )
        return read_csv(source), ()
    inside = sorted(path for path in source.iterdir() if not path.name.startswith("."))
    folders = [path for path in inside if path.is_dir()]
    by_class = {folder.name: image_files(folder) for folder in folders if _is_utf8(folder.name)}
    files = [(path, name) for name, paths in by_class.items() for path in paths]
    loose = [path for path in inside if path.is_file() and _is_image(path.name)]
    if not files:
        raise DataError(
            f"{source} must hold one folder of images for each known class; got {len(folders)} folders "
            f"without images and {len(loose)} images outside them; sort the images into folders or give a CSV"
        )
    left_out = [f"{path}: in no class folder" for path in loose]
    left_out += [f"{source / name}: a class folder without images" for name in by_class if not by_class[name]]
    return files, tuple(left_out)


def unlabelled_files(source: Path, role: str = "unlabelled") -> list[File]:
    """A folder of any structure, a CSV, a text list with a path in each line, or one image → files."""
    _check_exists(source, role, "a folder of images, a CSV or a text list of files")
    if source.is_dir():
        files = [(path, "") for path in image_files(source)]
    elif _is_image(source.name):
        files = [(str(source), "")]
    elif source.suffix.lower() == ".csv":
        files = read_csv(source)
    else:
        files = [(_beside(source, line.strip()), "") for line in _text(source).split("\n") if line.strip()]
    if not files:
        raise DataError(
            f"{source} must hold images; got none; known suffixes are {' '.join(sorted(SUFFIXES))}"
        )
    return files


def once(files: Sequence[File]) -> tuple[list[File], tuple[str, ...]]:
    """Each file once, at its first place, and what was left out and why."""
    first: dict[Path, File] = {}
    left_out = []
    for file in files:
        if first.setdefault(Path(file[0]).resolve(), file) is not file:
            left_out.append(f"{file[0]}: named before")
    return list(first.values()), tuple(left_out)


def read_csv(source: Path) -> list[File]:
    """Rows of path and label, or of the columns a header calls so; relative paths start at its folder.

    An assignments.csv of ours, with image and class, reads too.
    """
    rows = [
        row for row in csv.reader(StringIO(_text(source), newline="")) if any(cell.strip() for cell in row)
    ]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    at_path, at_label = 0, 1
    named = next((name for name in PATH_COLUMNS if name in header), None)
    if named is not None:
        label = next((name for name in LABEL_COLUMNS if name in header), None)
        at_path, at_label = header.index(named), header.index(label) if label else len(header)
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


def _names_a_file(source: Path, cell: str) -> bool:
    """Whether the first cell of a table without known columns may be a path, which a heading is not."""
    path = cell.strip()
    return _is_image(path) or os.path.isfile(_beside(source, path))


def _is_image(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in SUFFIXES


def _beside(source: Path, path: str) -> str:
    """Relative paths in a list start from the folder of the list."""
    return os.path.join(source.parent, path)


def _text(source: Path) -> str:
    try:
        return source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{source} must be a text file in UTF-8; got other bytes; save it as UTF-8") from None


def _check_exists(source: Path, role: str, expected: str) -> None:
    if not source.exists():
        raise DataError(
            f"the {role} images must be {expected}; got {source}, which does not exist; check the path"
        )
