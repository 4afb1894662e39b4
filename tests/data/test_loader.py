"""Batches of fixed composition: which rows, in which order, with which labels."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from newfound.core import dist
from newfound.core.errors import UsageError
from newfound.core.records import Views
from newfound.core.settings import TrainConfig
from newfound.data.dataset import Look, Split
from newfound.data.folders import from_folders
from newfound.data.images import ResidentImages, StreamedImages
from newfound.data.loader import KEPT, ClassSampler, Draw, Loader, batch_shape

CPU = torch.device("cpu")
LOOK = Look(4, "cifar", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 4)


def images(number: int, levels: torch.Tensor) -> ResidentImages:
    """`number` plain images, their grey levels repeating `levels`; one byte where all are the same."""
    pixels = levels.to(torch.uint8).view(-1, 1, 1, 1)
    pixels = pixels.expand(number, 3, 4, 4) if len(levels) == 1 else pixels.expand(-1, 3, 4, 4)
    return ResidentImages(pixels, [""] * number)


def split(n_l: int, n_u: int, num_known: int = 5) -> Split:
    """Large sets in a few bytes: every image is the same one."""
    grey = torch.tensor([100])
    return Split(images(n_l, grey), torch.arange(n_l) % num_known, images(n_u, grey), num_known, 1, LOOK)


def loader(
    data: Split,
    batch_size: int,
    uses: str = "both",
    labelled_share: str = "proportional",
    views: Views = Views(1),  # noqa: B008 (frozen)
    seed: int = 0,
    stage: str = "discover",
) -> Loader:
    return Loader(
        data,
        views,
        TrainConfig(batch_size=batch_size, augmentation="weak", labelled_share=labelled_share),  # type: ignore[arg-type]
        uses=uses,  # type: ignore[arg-type]
        seed=seed,
        stage=stage,
        device=CPU,
    )


@pytest.mark.parametrize(
    ("n_l", "n_u", "batch_size", "share", "expected"),
    [
        # CIFAR10 and CIFAR100-50, CIFAR100-20, and what IIC and UNO v1 train them with
        (25_000, 25_000, 512, "proportional", (256, 256, 97)),
        (25_000, 25_000, 256, "proportional", (128, 128, 195)),
        (40_000, 10_000, 512, "proportional", (410, 102, 97)),
        # ImageNet: an epoch is a pass over the labelled set
        (1_130_000, 39_000, 512, "half", (256, 256, 4414)),
        (1_130_000, 39_000, 512, "three-quarters", (384, 128, 2942)),
        (20_000, 30_000, 128, "balanced", (64, 64, 390)),
        (1_000, 10, 512, "half", (256, 256, 3)),
        # sets smaller than a batch, and as small as they may be
        (10, 20, 512, "proportional", (10, 20, 1)),
        (10, 20, 512, "half", (15, 15, 1)),
        (1, 1, 512, "proportional", (1, 1, 1)),
        (1, 1, 2, "half", (1, 1, 1)),
        # neither set is left without a row
        (1, 1000, 100, "proportional", (1, 99, 10)),
        (1000, 1, 100, "proportional", (99, 1, 10)),
        # one set alone
        (25_000, 10_100, 256, "labelled", (256, 0, 97)),
        (25_000, 10_100, 256, "unlabelled", (0, 256, 39)),
    ],
)
def test_composition(n_l: int, n_u: int, batch_size: int, share: str, expected: tuple[int, int, int]) -> None:
    """A share may also be one set alone, which is what a stage uses."""
    uses = share if share in ("labelled", "unlabelled") else "both"
    assert batch_shape(split(n_l, n_u), uses, batch_size, share) == expected


def drawn(draws: list[Draw], which: str) -> torch.Tensor:
    """The rows of one set in the order of an epoch."""
    rows: torch.Tensor = torch.cat([getattr(draw, which) for draw in draws])
    return rows


@pytest.mark.parametrize(("n_l", "n_u"), [(25_000, 25_000), (40_000, 10_000)])
def test_an_epoch_uses_every_image_at_most_once(n_l: int, n_u: int) -> None:
    draws = list(loader(split(n_l, n_u), 512).draws(0))
    assert len(draws) == 97
    for which, available in (("labelled", n_l), ("unlabelled", n_u)):
        rows = drawn(draws, which)
        assert len(set(rows.tolist())) == len(rows) >= 0.98 * available
        assert set(rows.tolist()) <= set(range(available))


def test_half_and_half_passes_over_the_smaller_set_again_and_again() -> None:
    draws = list(loader(split(1000, 30), 40, labelled_share="half").draws(0))
    labelled, unlabelled = drawn(draws, "labelled"), drawn(draws, "unlabelled")
    assert sorted(labelled.tolist()) == list(range(1000))
    whole = unlabelled[: len(unlabelled) // 30 * 30].view(-1, 30)
    assert (whole.sort(1).values == torch.arange(30)).all()
    assert not torch.equal(whole[0], whole[1])


def test_same_seed_stage_and_epoch_draw_the_same_and_others_do_not() -> None:
    data = split(300, 200)

    def first(seed: int = 0, stage: str = "discover", epoch: int = 3) -> Draw:
        return next(loader(data, 64, seed=seed, stage=stage).draws(epoch))

    wanted = first()
    torch.rand(7)  # other random numbers have no influence
    for name, value in first().tensors().items():
        assert torch.equal(value, wanted.tensors()[name])
    for other in (first(seed=1), first(stage="pretrain"), first(epoch=4)):
        assert all(not torch.equal(value, wanted.tensors()[name]) for name, value in other.tensors().items())


def test_a_stage_draws_the_same_whatever_the_set_it_does_not_use() -> None:
    """Pretrained weights are kept by what decides them, and the unlabelled images do not."""
    first, second = (list(loader(split(40, n_u), 16, "labelled").draws(0)) for n_u in (10, 33))
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.labelled, other.labelled)
        assert torch.equal(one.noise, other.noise)


def numbered() -> Split:
    """Image i of the labelled set has grey level i, of the unlabelled set 200 + i."""
    labels = torch.tensor([2, 0, 1, 1, 0, 2, 2, 0])
    return Split(images(8, torch.arange(8)), labels, images(12, 200 + torch.arange(12)), 3, 2, LOOK)


@pytest.mark.parametrize("views", [Views(1), Views(2)])
def test_labelled_rows_come_first_with_their_own_labels(views: Views) -> None:
    data = numbered()
    load = loader(data, 10, views=views)
    for draw in load.draws(1):
        batch = load.batch(draw)
        N = batch.num_labelled
        assert (N, len(batch.index)) == (4, 10)
        assert torch.equal(batch.index, torch.cat([draw.labelled, draw.unlabelled]))
        assert torch.equal(batch.labels, data.labels[draw.labelled])
        assert batch.views[0].shape == (views.count, 10, 3, 4, 4)
        # Padding is black, so the brightest pixel tells which image it is.
        levels = batch.views[0].amax((2, 3, 4)).mul(255).round().long()
        expected = torch.cat([draw.labelled, 200 + draw.unlabelled])
        assert torch.equal(levels, expected.expand(views.count, -1))


def files(folder: Path, levels: range) -> StreamedImages:
    """Files of the images that `numbered` has in memory."""
    folder.mkdir()
    for level in levels:
        Image.new("RGB", (4, 4), (level, level, level)).save(folder / f"{level:03}.png")
    return StreamedImages([str(path) for path in sorted(folder.iterdir())], (4, 4))


@pytest.mark.parametrize("uses", ["both", "labelled", "unlabelled"])
def test_images_that_are_fetched_make_the_same_batches(uses: str, tmp_path: Path) -> None:
    resident = numbered()
    streamed = replace(
        resident, labelled=files(tmp_path / "l", range(8)), unlabelled=files(tmp_path / "u", range(200, 212))
    )
    of_memory, of_files = (loader(data, 5, uses) for data in (resident, streamed))
    for memory, file in zip(of_memory.draws(0), of_files.draws(0), strict=True):
        assert memory.pixels is None
        assert file.pixels is not None
        one, other = of_memory.batch(memory), of_files.batch(file)
        assert torch.equal(one.views[0], other.views[0])
        assert torch.equal(one.labels, other.labels)
        assert torch.equal(one.index, other.index)
        assert "pixels" in file.tensors()
        assert "pixels" not in memory.tensors()


def test_a_small_labelled_set_is_streamed_with_a_large_pile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, number in (("known/a", 3), ("pile", 9)):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        files(tmp_path / place, range(number))
    for room, kept in ((12 * 3 * 8 * 8, None), (9 * 3 * 8 * 8, 12), (3 * 3 * 8 * 8, 12)):
        monkeypatch.setattr("newfound.data.folders.RESIDENT_BYTES", room)
        data = from_folders(tmp_path / "known", tmp_path / "pile", 2, size=8).split
        assert {type(data.labelled), type(data.unlabelled)} == {StreamedImages if kept else ResidentImages}
        streamed = loader(data, 5).streamed
        assert (streamed and len(streamed._kept)) == kept


def test_the_processes_of_a_machine_share_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = replace(
        numbered(), labelled=files(tmp_path / "l", range(8)), unlabelled=files(tmp_path / "u", range(12))
    )
    monkeypatch.setattr("newfound.data.loader.free_memory", lambda: 20 * 3 * 4 * 4 / KEPT)
    for processes, kept in ((1, 20), (4, 5)):
        with dist.expecting(processes):
            streamed = loader(data, 5).streamed
            assert streamed
            assert len(streamed._kept) == kept


def test_large_views_come_before_small_ones() -> None:
    train = TrainConfig(batch_size=6)
    load = Loader(split(8, 8), Views(2, 3), train, uses="both", seed=0, stage="discover", device=CPU)
    shapes = [tuple(view.shape) for view in load.batch(next(load.draws(0))).views]
    assert shapes == [(2, 6, 3, 4, 4), (3, 6, 3, 2, 2)]


LABELS = torch.tensor([0] * 7 + [1] * 2 + [3] * 9)


def test_a_class_sampler_draws_equally_many_images_of_each_class() -> None:
    rows, again = (ClassSampler(LABELS, 2, 8)(50, torch.Generator().manual_seed(0)) for _ in range(2))
    assert rows.shape == (50, 8)
    assert torch.equal(rows, again)
    for batch in LABELS[rows]:
        assert sorted(batch.bincount()[batch.unique()].tolist()) == [4, 4]
    assert set(rows.flatten().tolist()) == set(range(len(LABELS)))


@pytest.mark.parametrize("classes", [4, 5])
def test_sampled_classes_must_exist_and_divide_the_batch(classes: int) -> None:
    with pytest.raises(UsageError, match="classes_per_batch"):
        ClassSampler(LABELS, classes, 8)
