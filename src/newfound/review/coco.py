"""COCO's format: each image with one annotation that covers it."""

import json
from pathlib import Path

from PIL import Image

from newfound.engine.files import write_text
from newfound.review.files import existing
from newfound.review.review import Review


def write_coco(review: Review, path: Path) -> None:
    """Images, categories (all classes; ids as in the review) and annotations."""
    images, annotations = [], []
    confidence = review.assignments.confidence.tolist()
    for row, (file, key) in enumerate(zip(existing(review), review.ids.tolist(), strict=True)):
        with Image.open(file) as image:
            width, height = image.size
        images.append({"id": row, "file_name": str(file), "width": width, "height": height})
        box = {"bbox": [0, 0, width, height], "area": width * height, "iscrowd": 0}
        score = {"score": round(confidence[row], 4)}
        annotations.append({"id": row, "image_id": row, "category_id": key, **box, **score})
    kinds = ("novel", "known")
    categories = [
        {"id": key, "name": name, "supercategory": kinds[key < review.num_known]}
        for key, name in review.names.items()
    ]
    whole = {"images": images, "annotations": annotations, "categories": categories}
    write_text(path, json.dumps(whole, ensure_ascii=False) + "\n")
