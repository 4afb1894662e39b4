"""ImageNet (ILSVRC 2012) in its standard layout, and its 882/30 splits.

Deviation: training crops come from the central square of an image, the papers' from all of it. Evaluation is
theirs: the shorter side becomes 256 pixels, and the centre is cropped.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from newfound.core.registry import register_dataset
from newfound.data.augment import NORMALISATION
from newfound.data.benchmarks.family import Benchmark, Corpus, Family, Part, files_missing
from newfound.data.dataset import Look
from newfound.data.files import image_files
from newfound.data.images import StreamedImages

SIDE = 224
"""Side of the square that the encoder sees."""
STORED = 256
"""Side of the central square that it is cropped from."""
LAYOUT = "train/<wnid>/*.JPEG and val/<wnid>/*.JPEG"
ARCHIVES = "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar"
WNID = "n" + 8 * "[0-9]"

_LIST = Path(__file__).with_name("imagenet.txt").read_text(encoding="utf-8").splitlines()
_SPLITS_OF = dict(line.split() for line in _LIST)
POOL = tuple(_SPLITS_OF)
"""The 118 classes that are never known: each benchmark discovers 30 of them and leaves the others unused."""
SUBSETS = {letter: tuple(wnid for wnid, splits in _SPLITS_OF.items() if letter in splits) for letter in "abc"}


@register_dataset("imagenet")
def imagenet() -> Family:
    """Three choices of 30 novel classes."""
    look = Look(SIDE, "imagenet", *NORMALISATION["imagenet"], stored=STORED)
    benchmarks = (Benchmark(f"imagenet-30-{letter}", 882, novel, POOL) for letter, novel in SUBSETS.items())
    return Family(_read, look, LAYOUT, tuple(benchmarks))


def _read(data_dir: Path | None) -> Corpus:
    """Every class in `data_dir`, or in its folder `imagenet`, sorted by wnid."""
    roots = (data_dir, data_dir / "imagenet") if data_dir else ()
    for root in roots:
        if all(any((root / part).glob(WNID)) for part in ("train", "val")):
            classes = sorted(path.name for path in (root / "train").glob(WNID))
            return Corpus(tuple(classes), _part(root / "train", classes), _part(root / "val", classes))
    files = f"{ARCHIVES} unpacked as {LAYOUT}, val sorted into class folders too"
    raise files_missing("imagenet", files, roots)


def _part(folder: Path, classes: Sequence[str]) -> Part:
    by_class = [image_files(folder / wnid) for wnid in classes]
    labels = np.repeat(np.arange(len(classes)), [len(paths) for paths in by_class])
    paths = [path for each in by_class for path in each]
    return Part(labels, StreamedImages(paths, (STORED, STORED), crop=True))
