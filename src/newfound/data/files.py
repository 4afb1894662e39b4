"""The files that a user's folders, tables and lists name, and the image sets made of them."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from newfound.core.errors import DataError
from newfound.data.decode import Size, decode_all, decode_each
from newfound.data.images import ImageSet, ResidentImages, StreamedImages
from newfound.data.lists import SUFFIXES, File, is_image, read_csv, read_list
from newfound.data.reading import Reading

RESIDENT_BYTES = 16 * 2**30
LIST_SUFFIXES = ("", ".txt", ".list", ".lst")
"""Of text files with a path in each line."""
MOST_KINDS = 5
"""Kinds of files without images that are told apart."""
BY_NAME = "a CSV that names images loads them whatever their suffix"
"""The remedy where a folder's files are not known for images."""


def open_images(
    paths: Sequence[str], size: Size, strict: bool, reading: Reading | None = None
) -> tuple[ImageSet, list[int], tuple[str, ...]]:
    """Files → a set, the rows of `paths` in it, and the files left out; each file is decoded once to know."""
    images: ImageSet
    if is_resident(len(paths), size):
        pixels, kept, skipped = decode_all(paths, size, strict, reading)
        images = ResidentImages(pixels, [paths[row] for row in kept])
    else:
        kept, skipped = decode_each(paths, size, strict, lambda row, image: None, reading)
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
    return sorted(filter(_is_usable, _files(folder)))


def other_kinds(source: Path) -> tuple[str, ...]:
    """What a folder holds besides images that can be used, a line for each of the commonest kinds."""
    files = list(_files(source)) if source.is_dir() else []
    kinds = Counter(_kind(path) for path in files if not _is_usable(path))
    common = kinds.most_common(MOST_KINDS)
    lines = [f"{source}: {number:,} file{'s' * (number > 1)} {kind}" for kind, number in common]
    rest = kinds.total() - sum(number for _, number in common)
    if rest:
        lines.append(f"{source}: {rest:,} file{'s' * (rest > 1)} of other kinds, not looked at; {BY_NAME}")
    return tuple(lines)


def _is_usable(path: str) -> bool:
    return is_image(path) and _is_utf8(path) and not _is_hidden(path)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")


def _kind(path: str) -> str:
    """Why a file is not used, in words."""
    if _is_hidden(path):
        return "whose name begins with a dot, so hidden; rename it to use it"
    if not _is_utf8(path):
        return "whose name is not UTF-8; rename it"
    suffix = os.path.splitext(path)[1].lower()
    if not suffix:
        return f"without a suffix, not looked at; {BY_NAME}"
    return f"ending in {suffix}, no kind of image that we read"


def _files(folder: Path) -> Iterator[str]:
    """The files below `folder`, links followed, hidden folders and hidden files but images left out."""
    seen: set[str] = set()

    def refuse(error: OSError) -> None:
        raise _unreadable(error)

    for where, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        seen.add(os.path.realpath(where))
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(os.path.join(where, name)) not in seen
        ]
        paths = (os.path.join(where, name) for name in files)
        yield from (path for path in paths if is_image(path) or not _is_hidden(path))


def _unreadable(error: OSError) -> DataError:
    return DataError(
        f"{error.filename} must be a folder that can be read; got: {error.strerror}; mend its permissions, "
        "or move it away"
    )


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
        if is_image(source.name):
            raise DataError(
                f"the labelled images must be {expected}; got one image, {source}; "
                "give the folder above its class folder"
            )
        return read_csv(source), ()
    try:
        everything = sorted(source.iterdir())
    except OSError as error:
        raise _unreadable(error) from None
    inside = [path for path in everything if not path.name.startswith(".")]
    folders = [path for path in inside if path.is_dir()]
    by_class = {folder.name: image_files(folder) for folder in folders if _is_utf8(folder.name)}
    files = [(path, name) for name, paths in by_class.items() for path in paths]
    loose = [path for path in inside if path.is_file() and is_image(path.name)]
    if not files:
        raise DataError(
            f"{source} must hold one folder of images for each known class; got {len(folders)} folders "
            f"without images and {len(loose)} images outside them; sort the images into folders or give a CSV"
        )
    left_out = [f"{path}: in no class folder" for path in loose]
    left_out += [f"{source / name}: a class folder without images" for name in by_class if not by_class[name]]
    left_out += [f"{path}: a hidden folder" for path in everything if path.is_dir() and path not in inside]
    return files, tuple(left_out)


def unlabelled_files(source: Path, role: str = "unlabelled") -> list[File]:
    """A folder of any structure, a CSV, a text list with a path in each line, or one image → files."""
    expected = "a folder of images, a CSV or a text list of files"
    _check_exists(source, role, expected)
    if source.is_dir():
        files = [(path, "") for path in image_files(source)]
    elif is_image(source.name):
        files = [(str(source), "")]
    elif source.suffix.lower() == ".csv":
        files = read_csv(source)
    elif source.suffix.lower() in LIST_SUFFIXES:
        files = read_list(source)
    else:
        raise DataError(
            f"the {role} images must be {expected}; got {source}, no kind of file that we read; convert it, "
            f"or name it .txt if it lists files; images end in {' '.join(sorted(SUFFIXES))}"
        )
    if not files:
        raise DataError(
            f"{source} must hold images; got none; known suffixes are {' '.join(sorted(SUFFIXES))}; {BY_NAME}"
        )
    return files


def once(files: Sequence[File]) -> tuple[list[File], tuple[str, ...]]:
    """Each file once, at its first place, and what was left out and why."""
    first: dict[Path, File] = {}
    left_out = []
    for file in files:
        if (before := first.setdefault(Path(file[0]).resolve(), file)) is not file:
            left_out.append(f"{file[0]}: the same file as {before[0]}, named before")
    return list(first.values()), tuple(left_out)


def _check_exists(source: Path, role: str, expected: str) -> None:
    if not source.exists():
        raise DataError(
            f"the {role} images must be {expected}; got {source}, which does not exist; check the path"
        )
