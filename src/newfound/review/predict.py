"""New images sorted into the classes of a run as they are after its review."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from newfound.core.records import Say
from newfound.experiment.assignments import write_csv
from newfound.experiment.reopen import predict as ask
from newfound.review.replay import by_features, replay
from newfound.review.review import Review


def predict(
    review: Review, images: Path, out: Path, strict: bool, say: Say
) -> tuple[dict[str, int], Sequence[str]]:
    """Write image, class (known or novel) and confidence for new images.

    Returns how many images each class has, and the files left out.
    """
    found = ask(review.folder, images, strict, say)
    ids, names = replay(review.edits, found.classes, by_features(found.features)), review.names
    confidence = [f"{share:.4f}" for share in found.confidence]
    rows = zip(found.images, [names[key] for key in ids.tolist()], confidence, strict=True)
    write_csv(out, ("image", "class", "confidence"), rows)
    return {name: int(np.sum(ids == key)) for key, name in names.items()}, found.left_out
