"""ImageNet's class lists, and a small folder of its layout."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.core.errors import DataError
from newfound.data import folders
from newfound.data.augment import evaluation_view
from newfound.data.benchmarks import Benchmark, find_benchmark, load_benchmark
from newfound.data.benchmarks.imagenet import POOL, SUBSETS, imagenet
from newfound.data.folders import load_pile
from newfound.data.images import ResidentImages, StreamedImages
from tests.data.conftest import Paint

KNOWN = ("n01440764", "n02085620", "n07753592")
NOVEL = ("n01580077", "n02123045")
UNUSED = "n01498041"
SMALL = Benchmark("imagenet-small", len(KNOWN), NOVEL, POOL)


@pytest.fixture
def tree(tmp_path: Path, paint: Paint) -> Path:
    for number, wnid in enumerate((*KNOWN, *NOVEL, UNUSED)):
        for part, copies in (("train", 3), ("val", 2)):
            for copy in range(copies):
                paint(tmp_path / part / wnid / f"{wnid}_{copy}.JPEG", (number * 40, copy * 60, 0), (50, 40))
    (tmp_path / "train" / "LOC_synset_mapping.txt").write_text("not a class")
    return tmp_path


DIGESTS = {
    "pool": "9c3559eab1d533b0b18ce710089fbaa37ef3f74d512f9f1489c998caf5677a46",
    "a": "7a00caf6bb15e6545f29615dd57bf51220a55695b332a25002b93277be840c35",
    "b": "ae35adbe16333c26cb15a495da92d578202eeed45a8c14e465b1bedc8c93bba6",
    "c": "0a09aaa7b0eec50b3788f451d5b7632650a2c3a41c5a21c84c2144b00788cac2",
}
"""Of the sorted wnids as they were published, one a line."""


def test_the_lists_are_the_published_ones() -> None:
    lists = {"pool": POOL, **SUBSETS}
    found = {name: sha256("\n".join(sorted(wnids)).encode()).hexdigest() for name, wnids in lists.items()}
    assert found == DIGESTS


def test_the_lists_overlap_as_they_should() -> None:
    sets = {name: set(wnids) for name, wnids in SUBSETS.items()}
    assert len(set(POOL)) == len(POOL) == 118
    assert [len(sets[name]) for name in "abc"] == [30, 30, 30]
    assert all(subset <= set(POOL) for subset in sets.values())
    assert [len(sets[x] & sets[y]) for x, y in ("ab", "bc", "ac")] == [7, 7, 7]
    assert (len(set.intersection(*sets.values())), len(set.union(*sets.values()))) == (3, 72)
    _, declared = find_benchmark("imagenet-30-b")
    assert declared.novel == SUBSETS["b"] == tuple(sorted(SUBSETS["b"]))
    assert set(declared.novel) | set(declared.unused) == set(POOL)


def test_known_classes_come_first_each_part_sorted(tree: Path) -> None:
    dataset = imagenet().load(SMALL, tree)
    split, truth = dataset.split, dataset.truth
    assert truth is not None
    assert dataset.class_names == (*KNOWN, *NOVEL)
    assert split.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert truth.labels.tolist() == [3, 3, 3, 4, 4, 4]
    assert truth.test_labels.tolist() == [0, 0, 3, 3, 1, 1, 4, 4, 2, 2]  # in the order of the folders
    assert all(f"/{wnid}/" in name for wnid, name in zip(NOVEL, split.unlabelled.names[::3], strict=True))
    assert not any(
        UNUSED in name for images in (split.labelled, split.unlabelled, truth.test) for name in images.names
    )
    assert split.labelled.size == (256, 256)
    assert (split.look.size, split.look.stored, split.look.kind) == (224, 256, "imagenet")


def test_an_image_keeps_its_proportions(tree: Path) -> None:
    """As in the papers' evaluation: the shorter side becomes 256 pixels, and the central 224 are seen."""
    path = tree / "train" / KNOWN[0] / f"{KNOWN[0]}_0.JPEG"
    pixels = np.random.default_rng(0).integers(0, 256, (30, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((600, 300)).save(path, quality=95)
    split = imagenet().load(SMALL, tree).split
    with Image.open(path) as image:
        centre = image.resize((512, 256), Image.Resampling.BILINEAR).crop((128, 0, 384, 256))
    found = split.labelled.take(torch.tensor([0]))[0].permute(1, 2, 0).numpy()
    assert np.abs(found.astype(int) - np.asarray(centre)).mean() < 1
    stored = split.labelled.take(torch.tensor([0]))
    seen = evaluation_view(stored, split.look.size, split.look.kind, (0, 0, 0), (1, 1, 1)) * 255
    assert torch.equal(seen.round(), stored[..., 16:240, 16:240].float())
    pile, _ = load_pile(path, split.look.stored, strict=True, crop=split.look.crops)
    assert torch.equal(pile.take(torch.tensor([0])), split.labelled.take(torch.tensor([0])))


def test_a_subset_of_a_folder_called_imagenet(tree: Path) -> None:
    (tree / "imagenet").mkdir()
    for part in ("train", "val"):
        (tree / part).rename(tree / "imagenet" / part)
    dataset = imagenet().load(SMALL, tree, 1)
    assert dataset.truth is not None
    assert (len(dataset.split.labelled), len(dataset.split.unlabelled), len(dataset.truth.test)) == (3, 2, 5)


def test_large_parts_are_streamed_and_equal(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = torch.tensor([4, 0, 8])
    resident = imagenet().load(SMALL, tree).split.labelled
    assert isinstance(resident, ResidentImages)
    monkeypatch.setattr(folders, "RESIDENT_BYTES", 0)
    streamed = imagenet().load(SMALL, tree).split.labelled
    assert isinstance(streamed, StreamedImages)
    assert torch.equal(streamed.take(index), resident.take(index))
    monkeypatch.setattr(folders, "RESIDENT_BYTES", 3 * len(resident) * 256**2)
    split = imagenet().load(SMALL, tree).split
    assert len(split.unlabelled) <= len(resident)  # each set would fit alone
    assert isinstance(split.labelled, StreamedImages)
    assert isinstance(split.unlabelled, StreamedImages)


def test_missing_classes_are_counted(tree: Path) -> None:
    with pytest.raises(
        DataError, match=r"imagenet-30-a needs .* 882 known and 30 novel classes, got 3 and 2"
    ):
        load_benchmark("imagenet-30-a", tree)
    with pytest.raises(DataError, match="3 known and 3 novel classes, got 3 and 2"):
        imagenet().load(replace(SMALL, novel=(*NOVEL, POOL[-1])), tree)


def test_val_must_be_sorted_into_folders(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "train" / KNOWN[0] / "a.JPEG")
    paint(tmp_path / "val" / "ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(DataError, match="sorted into class folders"):
        load_benchmark("imagenet-30-a", tmp_path)
    with pytest.raises(DataError, match=r"ILSVRC2012_img_val\.tar.*data_dir"):
        load_benchmark("imagenet-30-b")
