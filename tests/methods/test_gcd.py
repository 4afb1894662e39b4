"""GCD: its loss, the clustering after it, and both on mixed piles and on novel ones."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from newfound.core.records import Batch, Clock, Task
from newfound.engine.evaluate import TrainingBank, Viewer
from newfound.losses.pairs import contrast
from newfound.methods.gcd import GCD
from newfound.nn.encoders.mlp import Identity
from tests.methods.mixed import DIM, KNOWN, NOVEL, mixed_vectors, score
from tests.tiny import CPU

SMALL = GCD.Config(hidden=16, projection=8, restarts=5)


def fitted(pile: str) -> tuple[GCD, TrainingBank]:
    torch.manual_seed(0)
    split = replace(mixed_vectors(noise=0.5).split, pile=pile)  # type: ignore[arg-type]
    method = GCD(Identity(str(DIM)), split.task, SMALL)
    bank = TrainingBank(Viewer(method, split.look, CPU, torch.float32), split)
    method.end(bank)
    return method.eval(), bank


def test_the_loss_is_the_two_contrasts_of_the_projections() -> None:
    torch.manual_seed(0)
    method, views = GCD(Identity("6"), Task(2, 2), SMALL), torch.randn(2, 7, 6)
    batch, clock = Batch((views,), torch.tensor([0, 1, 1]), torch.arange(7)), Clock(torch.zeros(()))
    out = method(batch, clock)
    first, second, third = method.g.layers
    for v in range(2):
        for i in range(7):
            z = third(F.gelu(second(F.gelu(first(views[v, i])))))
            torch.testing.assert_close(out["projected"][v, i], z / z.norm())
    losses = method.loss(out, batch, clock)
    every = contrast(out["projected"], torch.arange(7), 1.0)
    known = contrast(out["projected"][:, :3], batch.labels, 0.07)
    torch.testing.assert_close(sum(losses.values()), 0.65 * every + 0.35 * known)


def test_labelled_images_keep_their_class_in_the_clusters_of_a_mixed_pile() -> None:
    method, bank = fitted("mixed")
    known, pile = bank.labelled(method.encoder), bank.unlabelled(method.encoder)
    assigned = torch.cdist(pile, method.centres).argmin(1)
    for c in range(KNOWN + NOVEL):
        members = torch.cat([known[bank.labels == c], pile[assigned == c]])
        torch.testing.assert_close(method.centres[c], members.mean(0), rtol=1e-3, atol=1e-4)
    assert score(method.scores(pile), mixed_vectors(noise=0.5)).all > 0.95


def test_a_pile_of_novel_classes_is_clustered_by_itself() -> None:
    method, bank = fitted("novel")
    known, pile = bank.labelled(method.encoder), bank.unlabelled(method.encoder)
    for c in range(KNOWN):
        torch.testing.assert_close(method.centres[c], known[bank.labels == c].mean(0))
    assigned = torch.cdist(pile, method.centres[KNOWN:]).argmin(1)
    for c in range(NOVEL):
        mean = pile[assigned == c].mean(0)
        torch.testing.assert_close(method.centres[KNOWN + c], mean, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("pile", ["mixed", "novel"])
def test_only_the_direction_of_a_vector_counts(pile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, bank = fitted(pile)
    monkeypatch.setattr(Identity, "forward", lambda self, x: F.normalize(x, dim=-1) * (2 + x[:, :1].sign()))
    torch.manual_seed(0)
    method.cluster(bank, restarts=5)
    centres = method.centres.clone()
    monkeypatch.setattr(Identity, "forward", lambda self, x: x)
    torch.manual_seed(0)
    method.cluster(bank, restarts=5)
    torch.testing.assert_close(method.centres, centres)


def test_scores_are_minus_half_the_squared_distances() -> None:
    method, bank = fitted("mixed")
    x = bank.unlabelled(method.encoder)[:5]
    found = method.scores(3 * x)  # only the direction counts
    for i in range(5):
        for c in range(KNOWN + NOVEL):
            expected = -((x[i] - method.centres[c]) ** 2).sum().item() / 0.2
            assert found[0, i, c].item() == pytest.approx(expected, rel=1e-2, abs=1e-3)


def test_the_last_epoch_has_all_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    method, bank = fitted("mixed")
    seen: list[int] = []
    monkeypatch.setattr(GCD, "cluster", lambda self, bank, restarts: seen.append(restarts))
    method.after_epoch(bank, Clock(torch.zeros(())))
    method.end(bank)
    assert seen == [1, 5]
