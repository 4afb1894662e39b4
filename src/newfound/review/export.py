"""Exporters: images with their reviewed classes as a table, as folders, or in the format of another tool."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from PIL import Image

from newfound.core.errors import DataError, Hint, UsageError
from newfound.core.files import atomic, atomic_folder, check_new, located, write_text
from newfound.core.registry import EXPORTERS, register_exporter
from newfound.data.members import is_there, read_image
from newfound.data.parquet import import_pyarrow
from newfound.review.edits import UNSORTED_ID
from newfound.review.review import Review
from newfound.run.pile import inert, write_csv

Value = str | int | float | bool | None
Write = Callable[..., object]
W = TypeVar("W", bound=Write)

FIRST_ID = 1
"""The first id in a COCO file, since some tools take 0 for no id."""
MOST_BYTES = 240
"""The most bytes of a file name, with room for a number."""


@dataclass(frozen=True)
class Exporter:
    """An export format: the suffix of its files, empty for a folder, and the function that writes them."""

    suffix: str
    write: Write
    """Writes a review to a new path. For a folder it also takes `link`, a key of `PLACE`."""


def exporter(name: str, suffix: str) -> Callable[[W], W]:
    """Register a function that writes a review to a new file or, without a suffix, to a new folder.

    A path that ends in `.name` selects the format unless the user asks for another one.
    """

    def add(write: W) -> W:
        register_exporter(name)(Exporter(suffix, write))
        return write

    return add


def write_export(
    review: Review, out: Path, form: str | None = None, link: str | None = None
) -> dict[str, str]:
    """Write the images with their classes to a new file or folder.

    Without a format the suffix decides; a path without one becomes folders. `link` says how images get into
    a folder: copy (the default), hardlink or symlink. Returns class → folder where their names differ.
    """
    form = form or out.suffix.removeprefix(".") or "folders"
    formats = {name: EXPORTERS.get(name).suffix for name in EXPORTERS.names()}
    if form not in formats or formats[form] not in ("", out.suffix):
        known = ", ".join(f"{name} ({suffix or 'a folder'})" for name, suffix in formats.items())
        raise UsageError(f"Cannot export {out} as {form!r}. The formats are {known}.", Hint.FORMAT)
    if link is not None and (formats[form] or link not in PLACE):
        raise UsageError(f"link is one of {', '.join(PLACE)}, and only for folders; got {link!r} for {form}.")
    check_new(out, review.source.labelled, review.source.unlabelled)
    renamed = EXPORTERS.get(form).write(review, out, *([] if formats[form] else [link or "copy"]))
    return renamed if isinstance(renamed, dict) else {}


def table(review: Review) -> dict[str, list[Value]]:
    """Column → one value for each image, in the order of the assignments."""
    given, ids, names = review.assignments, review.ids.tolist(), review.names
    return {
        "image": list(given.images),
        "class_id": ids,
        "class": [names[key] for key in ids],
        "kind": [review.kind(key) for key in ids],
        "confidence": [round(float(share), 4) for share in given.confidence],
        "accepted": review.accepted.tolist(),
    }


def _rows(review: Review) -> list[dict[str, Value]]:
    """The table as one record for each image."""
    columns = table(review)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _classes(review: Review) -> dict[int, str]:
    """Id → name of all classes, known ones first, without the unsorted group."""
    return {key: name for key, name in review.listed.items() if key != UNSORTED_ID}


@exporter("csv", ".csv")
def write_csv_table(review: Review, path: Path) -> None:
    """Write a line for each image; class names that start like a formula get an apostrophe."""
    columns = table(review)
    columns["class"] = [inert(str(name)) for name in columns["class"]]
    rows = zip(*columns.values(), strict=True)
    texts = ([("no", "yes")[value] if isinstance(value, bool) else value for value in row] for row in rows)
    write_csv(path, tuple(columns), texts)


@exporter("json", ".json")
def write_json_table(review: Review, path: Path) -> None:
    """Write a list with an object for each image."""
    write_text(path, json.dumps(_rows(review), indent=1, ensure_ascii=False) + "\n")


@exporter("parquet", ".parquet")
def write_parquet(review: Review, path: Path) -> None:
    """Write the table as Apache Parquet."""
    pyarrow = import_pyarrow()
    with atomic(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.table(table(review)), temporary)


@exporter("coco", ".json")
def write_coco(review: Review, path: Path) -> None:
    """Write images with their stored sizes, all classes as categories, and boxes that cover whole images.

    Unsorted images have no box.
    """
    from newfound.data.decode import stored_sizes  # imports torch

    files = list(review.assignments.images)
    sizes = stored_sizes(files)
    _check_files(review, [file for file, size in zip(files, sizes, strict=True) if size is None])
    scores, ids = review.assignments.confidence.tolist(), review.ids.tolist()
    whole: dict[str, list[Mapping[str, object]]] = {"images": [], "annotations": [], "categories": []}
    for row, (height, width) in enumerate(filter(None, sizes)):
        key = row + FIRST_ID
        whole["images"].append({"id": key, "file_name": files[row], "width": width, "height": height})
        if ids[row] == UNSORTED_ID:
            continue
        shown = {"id": key, "image_id": key, "category_id": ids[row] + FIRST_ID}
        box = {"bbox": [0, 0, width, height], "area": width * height, "iscrowd": 0}
        whole["annotations"].append({**shown, **box, "score": round(scores[row], 4)})
    for key, name in _classes(review).items():
        category = {"id": key + FIRST_ID, "name": name, "supercategory": review.kind(key)}
        whole["categories"].append(category)
    write_text(path, json.dumps(whole, ensure_ascii=False) + "\n")


def _check_files(review: Review, unusable: Sequence[str]) -> None:
    """Refuse to export a run with images that cannot be used."""
    if unusable:
        of = len(review.assignments.images)
        raise DataError(
            f"{len(unusable):,} of {of:,} images are missing, unreadable or not part of the run. The first "
            f"is {unusable[0]}.",
            Hint.RELOCATE if review.source.unlabelled else None,
        )


def _foreign(review: Review) -> list[str]:
    """Images that are neither in the run's folders nor in its lists: an edited table could name any file.

    The images of a run on arrays are not files, so none of them is foreign.
    """
    source = review.source
    if source.arrays:
        return []
    places = [Path(each) for each in (source.labelled, source.unlabelled, source.data_dir) if each]
    folders = tuple(os.path.join(place.absolute(), "") for place in places if place.is_dir())
    named = [(name, located(name)) for name in review.assignments.images]
    outside = [each for each in named if not each[1].startswith(folders)]
    if not outside:
        return []
    from newfound.data.files import roots_of, unlabelled_files  # imports torch
    from newfound.data.vectors import joined_embeddings

    archives = tuple(f"{root}/" for place in places for root in roots_of(str(place)) or ())
    outside = [each for each in outside if not each[1].startswith(archives)]
    lists = [place for place in places if place.is_file()] if outside else []
    allowed = {located(path) for each in lists for path, _ in unlabelled_files(each)}
    if source.embeddings:
        allowed.update(joined_embeddings(source.embeddings, source.more_embeddings).vectors.names)
    return [name for name, path in outside if path not in allowed]


PLACE: Mapping[str, Callable[[Path, Path], object]] = {
    "copy": shutil.copy2,
    "hardlink": os.link,
    "symlink": lambda file, place: place.symlink_to(file),
}
"""Ways to put an image file into a folder."""


@contextmanager
def _with_images(review: Review, out: Path, places: Sequence[str], link: str) -> Iterator[Path]:
    """A new folder with the images at `places`, which is removed if anything fails."""
    images = review.assignments.images
    _check_files(review, _foreign(review) or [image for image in images if not is_there(image)])
    inside = {image for image in images if not os.path.isfile(image)}
    if inside and link != "copy":
        raise UsageError(f"{min(inside)} is not a separate file, so it can only be copied.")
    with atomic_folder(out) as whole:
        for folder in {os.path.dirname(place) for place in places}:
            (whole / folder).mkdir()
        for image, place in zip(images, places, strict=True):
            if image in inside:
                (whole / place).write_bytes(read_image(image))
            else:
                PLACE[link](Path(os.path.realpath(image)), whole / place)
        yield whole


@exporter("folders", "")
def write_folders(review: Review, out: Path, link: str) -> dict[str, str]:
    """Write a folder for each class that has images; returns class → folder where the names differ."""
    files, names, ids = [Path(name) for name in review.assignments.images], review.names, review.ids.tolist()
    filled = [key for key in names if key in set(ids)]
    folders = dict(zip(filled, distinct([safe(names[key]) for key in filled]), strict=True))
    places = distinct([f"{folders[key]}/{file.name}" for key, file in zip(ids, files, strict=True)])
    with _with_images(review, out, places, link):
        return {names[key]: folder for key, folder in folders.items() if names[key] != folder}


def _in_one_folder(review: Review, folder: str) -> list[str]:
    """A place for each image. Names differ even without their suffixes, which FiftyOne ignores."""
    files = [Path(name) for name in review.assignments.images]
    stems = distinct([file.stem for file in files])
    return [f"{folder}/{stem}{file.suffix}" for stem, file in zip(stems, files, strict=True)]


@exporter("label-studio", "")
def write_label_studio(review: Review, out: Path, link: str) -> None:
    """Write tasks.json with predictions, the labelling interface config.xml, and the images.

    Label Studio serves the files below one folder, which must be `out`.
    """
    model, tasks, places = f"newfound {review.results.method}", [], _in_one_folder(review, "images")
    for place, row in zip(places, _rows(review), strict=True):
        choice = {"from_name": "class", "to_name": "image", "type": "choices"}
        result = {"id": "class", **choice, "value": {"choices": [_in_xml(str(row["class"]))]}}
        data = {"image": f"/data/local-files/?d={quote(place)}", "file": row["image"]}
        data |= {key: row[key] for key in ("kind", "accepted")}
        predicted = {"model_version": model, "score": row["confidence"], "result": [result]}
        tasks.append({"data": data, "predictions": [predicted] * (row["kind"] != "unsorted")})
    choices = [f"    <Choice value={quoteattr(_in_xml(name))}/>" for name in _classes(review).values()]
    head = ["<View>", '  <Image name="image" value="$image"/>', '  <Choices name="class" toName="image">']
    with _with_images(review, out, places, link) as whole:
        write_text(whole / "tasks.json", json.dumps(tasks, indent=1, ensure_ascii=False) + "\n")
        write_text(whole / "config.xml", "\n".join([*head, *choices, "  </Choices>", "</View>", ""]))


def _in_xml(name: str) -> str:
    """The name, with the characters that XML forbids replaced."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", name)


@exporter("fiftyone", "")
def write_fiftyone(review: Review, out: Path, link: str) -> None:
    """Write a FiftyOneImageClassificationDataset, labels.json and images; unsorted images have no label."""
    classes, labels, places = _classes(review), {}, _in_one_folder(review, "data")
    number: dict[Value, int] = {key: position for position, key in enumerate(classes)}
    for place, row in zip(places, _rows(review), strict=True):
        label = {"label": number.get(row["class_id"]), "confidence": row["confidence"]}
        attributes = {"attributes": {key: row[key] for key in ("kind", "accepted")}}
        labels[Path(place).stem] = label | attributes if row["class_id"] in number else None
    with _with_images(review, out, places, link) as whole:
        found = {"classes": [*classes.values()], "labels": labels}
        write_text(whole / "labels.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")


@exporter("imagefolder", "")
def write_imagefolder(review: Review, out: Path, link: str) -> None:
    """Write metadata.csv and the images, for `imagefolder` of Hugging Face datasets."""
    columns, places = table(review), _in_one_folder(review, "images")
    names = [inert(str(name)) for name in columns["class"]]
    others = ("kind", "confidence", "accepted")
    rows = zip(places, names, *(columns[key] for key in others), strict=True)
    with _with_images(review, out, places, link) as whole:
        write_csv(whole / "metadata.csv", ("file_name", "label", *others), rows)


def safe(name: str) -> str:
    """A folder name that common file systems accept and do not hide."""
    text = _cut(re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name)).strip(". ")
    reserved = re.fullmatch(r"(?i)con|prn|aux|nul|(com|lpt)\d", text)
    return f"{text}_" if reserved or not text else text


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, numbered where one would repeat, ignoring case."""
    found: dict[str, str] = {}
    counts: dict[str, int] = {}
    for name in names:
        fresh = name
        while fresh.casefold() in found:
            counts[name] = counts.get(name, 1) + 1
            fresh = _numbered(name, counts[name])
        found[fresh.casefold()] = fresh
    return list(found.values())


def _numbered(name: str, number: int) -> str:
    """`a.png` → `a-2.png`; a name that gets too long for file systems is cut."""
    path = Path(name)
    ending = path.suffix if path.suffix.lower() in Image.registered_extensions() else ""
    stem = _cut(path.name.removesuffix(ending), len(os.fsencode(ending)))
    return str(path.with_name(f"{stem}-{number}{ending}"))


def _cut(name: str, less: int = 0) -> str:
    """The first characters of a name, as many as fit into `MOST_BYTES`, less some."""
    return os.fsencode(name)[: MOST_BYTES - less].decode(errors="ignore")
