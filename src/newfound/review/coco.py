"""COCO's format: each image with one annotation that covers it."""

import json
from pathlib import Path

from newfound.core.errors import DataError
from newfound.data.decode import stored_sizes
from newfound.engine.files import write_text
from newfound.review.files import files_of_pile
from newfound.review.review import Review

FIRST = 1
"""Of COCO's ids, since some of its tools take 0 for nothing."""


def write_coco(review: Review, path: Path) -> None:
    """Images at the size they are stored with, all classes as categories, and annotations."""
    files = files_of_pile(review)
    sizes = stored_sizes(list(map(str, files)))
    images, annotations = [], []
    confidence = review.assignments.confidence.tolist()
    for row, (file, size, key) in enumerate(zip(files, sizes, review.ids.tolist(), strict=True)):
        if size is None:
            raise DataError(
                f"every file of the pile must be an image; {file} is none any more; bring it back"
            )
        height, width = size
        images.append({"id": row + FIRST, "file_name": str(file), "width": width, "height": height})
        box = {"bbox": [0, 0, width, height], "area": width * height, "iscrowd": 0}
        names = {"id": row + FIRST, "image_id": row + FIRST, "category_id": key + FIRST}
        annotations.append({**names, **box, "score": round(confidence[row], 4)})
    kinds = ("novel", "known")
    categories = [
        {"id": key + FIRST, "name": name, "supercategory": kinds[key < review.num_known]}
        for key, name in review.names.items()
    ]
    whole = {"images": images, "annotations": annotations, "categories": categories}
    write_text(path, json.dumps(whole, ensure_ascii=False) + "\n")
