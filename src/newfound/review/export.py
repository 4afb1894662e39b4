"""The reviewed classes as files for whoever needs them."""

from pathlib import Path
from typing import Literal

from newfound.core.errors import UsageError
from newfound.engine.files import check_writable
from newfound.review.coco import write_coco
from newfound.review.files import How, write_folders
from newfound.review.review import Review
from newfound.review.table import WRITERS, table

Format = Literal["csv", "json", "parquet", "coco", "folders"]


def write_export(review: Review, out: Path, form: Format = "csv", link: How = "copy") -> None:
    """Write the pile with its classes to a new file, or as folders that images are copied or linked into."""
    if out.exists() or out.is_symlink():
        raise UsageError(f"an export goes to a new place; {out} is there already; choose another")
    check_writable(out)
    if form == "folders":
        write_folders(review, out, link)
    elif form == "coco":
        write_coco(review, out)
    else:
        WRITERS[form](table(review), out)
