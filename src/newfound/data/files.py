"""Listing the images of a folder, a CSV, a list, tar files or a dataset."""

import csv
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from glob import glob
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import NoReturn

from newfound.core.errors import DataError, reason_of, shortened
from newfound.core.files import DATASETS, located, read_text, reading
from newfound.core.registry import library
from newfound.data.dataset import counted
from newfound.data.decode import READS_HEIC
from newfound.data.members import LABELS, dataset, indexed, label_of, read_image
from newfound.data.parquet import matching, predictions

_SUFFIXES = ".jpg .jpeg .jpe .jfif .png .apng .gif .webp .bmp .tif .tiff .ppm .pgm .pbm .pnm .jp2 .tga .avif"
HEIC = (".heic", ".heif")
"""Photographs of iPhones."""
SUFFIXES = frozenset((*_SUFFIXES.split(), *(HEIC if READS_HEIC else ())))
LIST_SUFFIXES = ("", ".txt", ".list", ".lst")
"""Suffixes of text files with one path per line."""
COLUMNS = (("path", "image"), ("label", "class"))
"""Names of the columns of a CSV."""
MISSING = ("nan", "NaN", "None", "<NA>")
"""What pandas and numpy write for a missing label."""
File = tuple[str, str]
"""A path and its label, empty if there is none."""


def image_files(folder: Path) -> list[str]:
    """All images below `folder`, sorted, without hidden files and folders."""
    return sorted(path for path in _files(folder) if not unusable(path))


def other_files(source: Path) -> list[str]:
    """One line about the unused files of a folder and their most common kinds; empty if there are none."""
    return _unused(source, _files(source)) if source.is_dir() and roots_of(str(source)) is None else []


def _unused(source: Path | str, files: Iterable[str]) -> list[str]:
    kinds = Counter(filter(None, map(unusable, files)))
    common = [f"{number:,} {kind}" for kind, number in kinds.most_common()]
    line = f"{source}: {counted(kinds.total(), 'other file')} ({shortened(common, 5)}){_heic(kinds)}"
    return [line] if kinds else []


def labelled_files(source: Path) -> tuple[list[File], list[str]]:
    """The files of a CSV, or of a folder with one subfolder per class, and what was left out and why.

    Class names are stripped of spaces. Tar files and datasets bring their own labels.
    """
    if (roots := roots_of(str(source))) is not None:
        return _members(roots, labelled=True), []
    if os.path.isfile(source) and not _is_image(source.name):
        return read_csv(source), []
    if not os.path.isdir(source):
        _refuse(source, "labelled", "a folder with one subfolder of images per class, or a CSV file")
    _, folders, names = next(os.walk(source, onerror=_refuse_folder))
    hidden = [name for name in folders if name.startswith(".")]
    classes = sorted(name for name in folders if name not in hidden and _is_utf8(name))
    by_class = {name: image_files(source / name) for name in classes}
    files = [(path, name.strip()) for name, paths in by_class.items() for path in paths]
    loose = [name for name in names if _is_image(name) and not name.startswith(".")]
    if not files:
        raise DataError(
            f"{source} must contain one subfolder of images per known class; it has "
            f"{counted(len(classes), 'empty subfolder')} and {counted(len(loose), 'image')} outside them"
            f"{_heic(map(unusable, _files(source)))}."
        )
    left_out = [f"{source / name}: not in a class folder" for name in sorted(loose)]
    left_out += [f"{source / name}: class folder without images" for name in classes if not by_class[name]]
    left_out += [f"{source / name}: hidden folder" for name in sorted(hidden)]
    return files, left_out


def remote_files(place: str) -> tuple[list[str], list[str]] | None:
    """The images below a remote folder, or that match a URL with `*`, and a line about the other files.

    None for places on this machine, and for a remote CSV, list or image.
    """
    suffix = _suffix(place)
    is_file = suffix and suffix in (*SUFFIXES, ".csv", *LIST_SUFFIXES)
    if "://" not in place or (is_file and "*" not in place):
        return None
    found = matching(place)
    images = [url for url in found if not unusable(url)]
    if not images:
        raise _no_images(place, found)
    return images, _unused(place, found)


def unlabelled_files(source: Path | str, role: str = "unlabelled") -> list[File]:
    """The files of a folder of any structure, a CSV, a list with one path per line, tar files or a dataset.

    A single image will do too, or a folder that `predict` wrote. Images, CSV files and lists may be remote.
    """
    suffix = _suffix(source) if "://" in str(source) or os.path.isfile(source) else None
    if (roots := roots_of(str(source))) is not None:
        files = _members(roots, labelled=False)
    elif os.path.isdir(source):
        files = [(path, "") for path in image_files(Path(source))] or [*predictions(str(source))]
    elif suffix in SUFFIXES:
        files = [(str(source), "")]
    elif suffix == ".csv":
        files = read_csv(source)
    elif suffix in LIST_SUFFIXES:
        lines = map(str.strip, read_text(source).split("\n"))
        files = [(_joined(source, line), "") for line in lines if line]
    else:
        _refuse(source, role, f"a folder of images, a CSV, a .txt list of files or an image ({_SUFFIXES})")
    if not files:
        raise _no_images(source, _files(Path(source)) if os.path.isdir(source) else ())
    return files


def _no_images(source: Path | str, files: Iterable[str]) -> DataError:
    heic = _heic(map(unusable, files))
    return DataError(
        f"{source} contains no images ({_SUFFIXES}){heic}. A CSV can list files with other names."
    )


def read_csv(source: Path | str) -> list[File]:
    """The paths and labels in a CSV: its columns `path` (or `image`) and `label` (or `class`).

    Without a header these are the first two columns. Relative paths start at the folder of the CSV. An empty
    label means none, as do nan and None.
    """
    rows = _rows(source)
    first = next(rows, [])
    header = [cell.lower() for cell in first]
    columns = [next((header.index(name) for name in names if name in header), None) for names in COLUMNS]
    if columns[0] is None:
        file = _joined(source, first[0]) if first else ""
        if first and not (_is_image(file) or "://" in file or os.path.isfile(file)):
            raise DataError(
                f"{source} needs a column named path or image, or rows that start with a path, and commas "
                f"between cells; its first row is {','.join(first)!r}."
            )
        rows, columns = chain([first] if first else [], rows), [0, 1]
    cells = ([row[at] if at is not None and at < len(row) else "" for at in columns] for row in rows)
    return [(_joined(source, path), "" if label in MISSING else label) for path, label in cells]


def _rows(source: Path | str) -> Iterator[list[str]]:
    """The rows of a CSV that are not empty."""
    reader = csv.reader(StringIO(read_text(source), newline=""), strict=True)
    try:
        for row in reader:
            if any(cells := [cell.strip() for cell in row]):
                yield cells
    except csv.Error as error:
        raise DataError(f"{source} is not a valid CSV: {error}, line {reader.line_num}.") from None


def _joined(source: Path | str, name: str) -> str:
    """The path of an image listed in the file `source`."""
    return name if located(name) == name else os.path.join(os.path.dirname(source), name)


def roots_of(source: str) -> list[str] | None:
    """The tar files that `source` names, or the dataset; None if it is neither.

    Tar files are given as a folder, a pattern such as part-{000..123}.tar or part-*.tar, or a single file. A
    folder that also holds images is an ordinary folder.
    """
    if source.startswith(DATASETS):
        return [located(source)]
    roots = [source]
    if os.path.isdir(source):
        roots = []
        for path in _files(Path(source)):
            if _is_image(path):
                return None
            roots += [path] * path.endswith(".tar")
        roots.sort()
    elif "{" in source and not os.path.exists(source):
        roots = list(library("braceexpand", "wds").braceexpand(source))
    elif source.endswith("*.tar"):
        roots = sorted(glob(source)) if "://" not in source else matching(source)
    return roots if roots and all(root.endswith(".tar") for root in roots) else None


def _members(roots: Sequence[str], labelled: bool) -> list[File]:
    """The images in tar files or in a dataset, with their labels if they are `labelled`."""
    files: list[File] = []
    for root in roots:
        if root.startswith(DATASETS):
            images = dataset(root)
            labels = images.labels if labelled and images.labels else [""] * len(images.rows)
            files += [(f"{root}/{row}", label) for row, label in enumerate(labels)]
        else:
            names = indexed(root)
            there = {*names} if labelled else set()
            found = (name for name in names if not unusable(name))
            files += [(f"{root}/{name}", _label(root, name, there) if labelled else "") for name in found]
    return files


def _label(tar: str, name: str, there: Collection[str]) -> str:
    """The label of an image in a tar file: what NAME.cls or NAME.json beside it says, or else its folder."""
    folder, _, file = name.rpartition("/")
    stem = f"{folder}/{file.partition('.')[0]}".lstrip("/")
    if (beside := f"{stem}.cls") in there:
        with reading(f"{tar}/{beside}", "a class", DataError):
            return read_image(f"{tar}/{beside}").decode().strip()
    if (beside := f"{stem}.json") in there:
        with reading(f"{tar}/{beside}", "a file of JSON", DataError):
            said = json.loads(read_image(f"{tar}/{beside}"))
            if found := [said[key] for key in LABELS if isinstance(said, dict) and key in said]:
                return label_of(found[0])
    return os.path.basename(folder).strip()


def distinct(files: Sequence[File]) -> tuple[dict[str, File], list[tuple[File, File]]]:
    """Real path → first file with that path, and pairs of each repeated file with the first one."""
    first: dict[str, File] = {}
    repeated, real_folder = [], cache(os.path.realpath)

    def real(path: str) -> str:
        """`realpath`, but resolves each folder once and returns most paths unchanged, as the same object."""
        if "://" in path:
            return path
        folder, name = os.path.split(path)
        if os.path.islink(path):
            return os.path.realpath(path)
        return path if real_folder(folder) == folder else os.path.join(real_folder(folder), name)

    for file in files:
        if (before := first.setdefault(real(file[0]), file)) is not file:
            repeated.append((file, before))
    return first, repeated


def _files(folder: Path) -> Iterator[str]:
    """Files below `folder`; follows links, skips hidden folders and hidden files that are not images."""
    seen: set[str] = set()
    for where, folders, files in os.walk(folder, followlinks=True, onerror=_refuse_folder):
        real = os.path.realpath(where)
        folders[:] = [name for name in folders if not name.startswith(".") and real not in seen]
        names = [name for name in files if real not in seen and (_is_image(name) or not name.startswith("."))]
        yield from (os.path.join(where, name) for name in names)
        seen.add(real)


def _refuse_folder(error: OSError) -> NoReturn:
    raise DataError(f"{reason_of(error)}: {error.filename}") from None


def _refuse(source: Path | str, role: str, expected: str) -> NoReturn:
    problem = "is not" if os.path.exists(source) else "does not exist; expected"
    heic = _heic([_suffix(source)])
    raise DataError(f"Cannot read the {role} images: {source} {problem} {expected}{heic}.")


def unusable(path: str) -> str:
    """Why a file is not used, or an empty string."""
    if os.path.basename(path).startswith("."):
        return "hidden"
    if not _is_utf8(path):
        return "with a name that is not UTF-8"
    return "" if _is_image(path) else _suffix(path) or "without a suffix"


def _heic(kinds: Iterable[str]) -> str:
    """A hint to install support for HEIC, if these kinds include it and it is missing."""
    return "; pip install 'newfound[heic]' to read .heic" if ({*HEIC} - SUFFIXES) & {*kinds} else ""


def _is_image(path: str) -> bool:
    """Whether the suffix is that of an image."""
    return _suffix(path) in SUFFIXES


def _suffix(path: Path | str) -> str:
    return os.path.splitext(path)[1].lower()


def _is_utf8(path: str) -> bool:
    """Whether the path can be written to a text file."""
    return path.encode(errors="ignore").decode() == path
