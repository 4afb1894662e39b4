"""New images sorted into the classes of a run as they are after its review."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from newfound.core.records import Say
from newfound.experiment.assignments import write_csv
from newfound.experiment.reopen import predict as predict_found
from newfound.review.edits import Split
from newfound.review.replay import by_features, shares_after
from newfound.review.review import Review


def predict(
    review: Review, images: Path, out: Path, strict: bool, say: Say
) -> tuple[dict[str, int], Sequence[str]]:
    """Write image, class (known or novel) and confidence for new images.

    Returns how many images each class has, and the files left out.
    """
    edits, names = review.edits, list(review.names.values())
    is_split = any(isinstance(edit, Split) for edit in edits)
    found = predict_found(review.folder, images, strict, is_split, say)
    features = np.empty((0, 0)) if found.features is None else found.features
    left = shares_after(edits, found.shares, by_features(features))
    shares = np.stack([left[key] for key in review.names], axis=1)
    classes = shares.argmax(1)
    confidence = [f"{share:.4f}" for share in shares.max(1)]
    rows = zip(found.images, [names[place] for place in classes.tolist()], confidence, strict=True)
    write_csv(out, ("image", "class", "confidence"), rows)
    sizes = np.bincount(classes, minlength=len(names)).tolist()
    return dict(zip(names, sizes, strict=True)), found.left_out
