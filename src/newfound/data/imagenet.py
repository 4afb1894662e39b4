"""ImageNet (ILSVRC 2012) in its standard layout, and the class lists of its 882/30 splits.

Deviation: images are resized to a square before any crop; the papers crop from the image as it is stored.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from newfound.core.errors import DataError
from newfound.data.corpus import Corpus, Part
from newfound.data.files import image_files, is_resident, open_images
from newfound.data.images import ImageSet, StreamedImages
from newfound.data.subsets import Rows

SIDE = 224
STORED = 256
"""Evaluation resizes to 256 pixels and cuts off the margin."""
LAYOUT = "train/<wnid>/*.JPEG and val/<wnid>/*.JPEG"
ARCHIVES = "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar"

_POOL = """
n01498041 n01537544 n01580077 n01592084 n01632777 n01644373 n01665541 n01675722 n01688243 n01729977
n01775062 n01818515 n01843383 n01883070 n01950731 n02002724 n02013706 n02092339 n02093256 n02095314
n02097130 n02097298 n02098413 n02101388 n02106382 n02108089 n02110063 n02111129 n02111500 n02112350
n02115913 n02117135 n02120505 n02123045 n02125311 n02134084 n02167151 n02190166 n02206856 n02231487
n02256656 n02398521 n02480855 n02481823 n02490219 n02607072 n02666196 n02672831 n02704792 n02708093
n02814533 n02817516 n02840245 n02843684 n02870880 n02877765 n02966193 n03016953 n03017168 n03026506
n03047690 n03095699 n03134739 n03179701 n03255030 n03388183 n03394916 n03424325 n03467068 n03476684
n03483316 n03627232 n03658185 n03710193 n03721384 n03733131 n03785016 n03786901 n03792972 n03794056
n03832673 n03843555 n03877472 n03899768 n03930313 n03935335 n03954731 n03995372 n04004767 n04037443
n04065272 n04069434 n04090263 n04118538 n04120489 n04141975 n04152593 n04154565 n04204347 n04208210
n04209133 n04258138 n04311004 n04326547 n04367480 n04447861 n04483307 n04522168 n04548280 n04554684
n04597913 n04612504 n07695742 n07697313 n07697537 n07716906 n12998815 n13133613
"""
POOL = tuple(_POOL.split())
"""The 118 classes held out by every split; a split discovers 30 of them and leaves the others unused."""

SUBSETS = {
    name: tuple(wnids.split())
    for name, wnids in {
        "a": """
        n01580077 n01688243 n01883070 n02092339 n02095314 n02098413 n02108089 n02120505 n02123045 n02256656
        n02607072 n02814533 n02840245 n02843684 n02877765 n03179701 n03424325 n03483316 n03627232 n03658185
        n03785016 n03794056 n03899768 n04037443 n04069434 n04118538 n04154565 n04311004 n04522168 n07695742
        """,
        "b": """
        n01883070 n02013706 n02093256 n02097130 n02101388 n02106382 n02112350 n02167151 n02490219 n02814533
        n02843684 n02870880 n03017168 n03047690 n03134739 n03394916 n03424325 n03483316 n03658185 n03721384
        n03733131 n03786901 n03843555 n04120489 n04152593 n04208210 n04258138 n04522168 n04554684 n12998815
        """,
        "c": """
        n01580077 n01592084 n01632777 n01775062 n01818515 n02097130 n02097298 n02098413 n02111500 n02115913
        n02117135 n02398521 n02480855 n02817516 n02843684 n02877765 n02966193 n03095699 n03394916 n03424325
        n03710193 n03733131 n03785016 n03995372 n04090263 n04120489 n04326547 n04522168 n07697537 n07716906
        """,
    }.items()
}


def imagenet_corpus(data_dir: Path | None) -> Corpus:
    """Every class of the folder `data_dir`, or of `imagenet` in it, sorted by wnid."""
    root = _find(data_dir)
    classes = tuple(
        sorted(path.name for path in (root / "train").iterdir() if re.fullmatch(r"n\d{8}", path.name))
    )
    return Corpus(classes, _part(root / "train", classes), _part(root / "val", classes))


def _part(folder: Path, classes: Sequence[str]) -> Part:
    files = [(path, label) for label, wnid in enumerate(classes) for path in image_files(folder / wnid)]

    def pick(rows: Rows) -> ImageSet:
        paths, size = [files[row][0] for row in rows], (STORED, STORED)
        if is_resident(len(paths), size):
            return open_images(paths, size, strict=True)[0]
        # official files are not decoded once to see whether they can be
        return StreamedImages(paths, size)

    return Part(np.array([label for _, label in files], np.int64), pick)


def _find(data_dir: Path | None) -> Path:
    if data_dir is None:
        raise DataError(
            f"imagenet needs a data folder; got none; unpack {ARCHIVES} as {LAYOUT} and give their folder "
            "with --data-dir"
        )
    looked = (data_dir, data_dir / "imagenet")
    for root in looked:
        if all(any((root / part).glob("n????????")) for part in ("train", "val")):
            return root
    places = " or ".join(str(root) for root in looked)
    raise DataError(
        f"imagenet must lie as {LAYOUT} in {places}; got no such folders; unpack {ARCHIVES} there, with the "
        "val images sorted into class folders like those of train"
    )
