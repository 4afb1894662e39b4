"""The reviewed classes as files for whoever needs them."""

from pathlib import Path
from typing import Literal, get_args

from newfound.core.errors import UsageError, unknown
from newfound.engine.files import check_writable
from newfound.experiment.folder import check_apart
from newfound.review.coco import write_coco
from newfound.review.files import How, write_folders
from newfound.review.review import Review
from newfound.review.table import WRITERS, table

Format = Literal["csv", "json", "parquet", "coco", "folders"]
ENDINGS: dict[Format, str] = {
    "csv": ".csv",
    "json": ".json",
    "parquet": ".parquet",
    "coco": ".json",
    "folders": "",
}


def write_export(
    review: Review, out: Path, form: Format | None = None, link: How | None = None
) -> dict[str, str]:
    """Write the pile with its classes to a new file, or as folders that images are copied or linked into.

    Returns the classes whose folders have other names than they.
    Without a format the name tells it: .csv, .json or .parquet, and folders without an ending.
    """
    form = form or _told(out)
    _check(review, out, form, link)
    if form == "folders":
        return write_folders(review, out, link or "copy")
    if form == "coco":
        write_coco(review, out)
    else:
        WRITERS[form](table(review), out)
    return {}


def _told(out: Path) -> Format:
    for form, ending in ENDINGS.items():
        if ending == out.suffix:
            return form
    raise UsageError(
        f"an export must end in .csv, .json or .parquet, or in nothing for folders; got {out}; choose "
        "another name, or say --format"
    )


def _check(review: Review, out: Path, form: Format, link: How | None) -> None:
    if form not in ENDINGS:
        raise unknown("format", form, ENDINGS, f"the formats are {', '.join(ENDINGS)}")
    if link is not None and link not in get_args(How):
        raise unknown("link", link, get_args(How), f"it is one of {', '.join(get_args(How))}")
    if link is not None and form != "folders":
        raise UsageError(f"--link must come with folders; got it with {form}; leave it out")
    if form != "folders" and out.suffix != ENDINGS[form]:
        raise UsageError(f"a {form} export must go to a {ENDINGS[form]} file; got {out}; choose another name")
    if out.exists() or out.is_symlink():
        raise UsageError(f"an export goes to a new place; {out} is there already; choose another")
    check_apart(out, review.folder.source())
    check_writable(out)
