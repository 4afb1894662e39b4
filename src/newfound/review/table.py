"""The reviewed pile as a table, and the table as a file."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from newfound.core.errors import UsageError
from newfound.engine.files import atomic, write_text
from newfound.experiment.assignments import FLAGS, UNKNOWN, write_csv
from newfound.review.review import Review

Columns = Mapping[str, list[Any]]


def table(review: Review) -> dict[str, list[Any]]:
    """Column → a value for each image of the pile, in its order."""
    given, ids, names = review.assignments, review.ids.tolist(), review.names
    looks = [
        None if near == UNKNOWN else flag
        for flag, near in zip(review.looks_known.tolist(), given.nearest_known, strict=True)
    ]
    return {
        "image": list(given.images),
        "class_id": ids,
        "class": [names[key] for key in ids],
        "confidence": [round(float(share), 4) for share in given.confidence],
        "is_outlier": given.is_outlier.tolist(),
        "looks_known": looks,
        "nearest_known": list(given.nearest_known),
    }


def _csv(columns: Columns, path: Path) -> None:
    texts = [
        [FLAGS[value] if isinstance(value, bool) else value for value in each] for each in columns.values()
    ]
    write_csv(path, tuple(columns), zip(*texts, strict=True))


def _json(columns: Columns, path: Path) -> None:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    write_text(path, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def _parquet(columns: Columns, path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "parquet needs the package pyarrow, which is not installed; pip install newfound[parquet], or "
            "choose csv"
        ) from None
    with atomic(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.table(dict(columns)), temporary)


WRITERS: dict[str, Callable[[Columns, Path], None]] = {"csv": _csv, "json": _json, "parquet": _parquet}
