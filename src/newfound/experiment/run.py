"""A run: a chain of learners, each trained, saved and resumable."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from newfound.core.config import Recipe
from newfound.core.errors import CheckpointError, RunError, ran_out_of_memory
from newfound.core.learner import Learner, Method
from newfound.core.records import Say
from newfound.data.images import Dataset, Split
from newfound.data.loader import Loader
from newfound.engine.bank import TrainingBank, Viewer
from newfound.engine.checkpoint import Checkpoint, load_strictly, moments_of, restore_moments
from newfound.engine.claim import claimed
from newfound.engine.device import fallback_line, resolve_device, resolve_mode, resolve_precision
from newfound.engine.evaluator import Evaluator
from newfound.engine.log import RunLog
from newfound.engine.trainer import EpochRecord, Trainer, lowest
from newfound.experiment.account import Account
from newfound.experiment.folder import Folder
from newfound.experiment.model import build_method, build_stage, load_pretrained, starting_weights
from newfound.experiment.plugin import extra_loss
from newfound.experiment.pretrained import digest_of, key_of, last_cached
from newfound.experiment.same_images import check_images, num_images

Scores = dict[str, float]
Watch = Callable[[EpochRecord, Scores], None]


class Stopped(Exception):  # noqa: N818 (not an error: the run was asked to stop, and can go on)
    """The run ended early at a checkpoint."""


def best_head(lines: Sequence[dict[str, Any]]) -> int:
    """The head of lowest loss in the last epoch of discovery: chosen without a label."""
    discovery = [line for line in lines if line["stage"] == "discover"]
    return lowest(discovery[-1]["head_losses"] if discovery else [])


def stage_loader(stage: str, learner: Learner, recipe: Recipe, split: Split, device: torch.device) -> Loader:
    """The batches that a stage of the recipe trains on."""
    return Loader(
        split,
        learner.views,
        recipe.train[stage],
        uses=learner.uses,
        seed=recipe.run.seed,
        stage=stage,
        device=device,
    )


@contextmanager
def _within_memory(stage: str) -> Iterator[None]:
    """Make one clear error of memory that runs out in a stage."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out_of_memory(error):
            raise
        prefix = "" if stage == "discover" else f"{stage}."
        raise RunError(
            f"{stage} must fit into memory; it does not; a checkpoint that was reached is kept: go on where "
            f"more memory is free, or begin a new run with a smaller {prefix}batch_size or smaller images"
        ) from error


class Run:
    """One run in one folder: trains stages, evaluates, saves, and goes on from where it was."""

    def __init__(
        self,
        folder: Folder,
        dataset: Dataset,
        recipe: Recipe,
        *,
        watch: Watch = lambda record, scores: None,
        say: Say = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder, self.recipe, self.watch, self.say, self.should_stop = (
            folder,
            recipe,
            watch,
            say,
            should_stop,
        )
        self.device = resolve_device(recipe.run.device)
        self.precision = resolve_precision(recipe.run.precision, self.device)
        self._fallback = fallback_line(recipe.run, self.device, self.precision)
        self.fingerprint = dataset.fingerprint()  # before it moves, so that what moves has it
        self.dataset = dataset.to(self.device)
        folder.path.mkdir(parents=True, exist_ok=True)
        self.claim = claimed(folder.path)
        self.log = RunLog(folder.path)
        self.account = Account()
        self.start = ""
        """The weights that the first stage started from, in one word."""
        self.saved: Checkpoint | None = None
        if folder.checkpoint.exists():
            self.saved = Checkpoint.load(folder.checkpoint)
            check_images(self.saved, folder, dataset)
            self.account = Account.of(self.saved.state)
            if folder.has_other_code():
                say(f"the code of {recipe.method} has changed since this run began; what was trained stays")
        self.log.restore(self.saved.state["lines"] if self.saved else [])

    @property
    def split(self) -> Split:
        return self.dataset.split

    @property
    def best_head(self) -> int:
        return best_head(self.log.lines)

    def discover(self, cache: Path) -> Method:
        """The whole chain: pretraining where it is needed, then the method."""
        method = build_method(self.recipe, self.split.task, self.split.look, self.device)
        if self._saved_in("discover") is None:
            given = self.recipe.run.pretrained
            weights = self._given(Path(given)) if given else self.pretrain(cache)
            if weights:
                self._hand_over(weights, method)
        self._train("discover", method)
        return method

    def pretrain(self, cache: Path) -> dict[str, Tensor]:
        """The weights a method starts from: those in `cache` when they match, else trained and put there."""
        start = starting_weights(self.recipe, self.split.look)
        self._check_start(digest_of(start))
        stages, key = [], self.start
        for stage in self.recipe.pretraining:
            learner = build_stage(stage, self.recipe, self.split.task, self.split.look, self.device)
            key = key_of(stage, learner, key, self.recipe, self.split, self.device, self.precision)
            stages.append((stage, learner, cache / f"{key}.safetensors"))
        cached, missing = last_cached(stages, self.say)
        self._check_order([stage for stage, *_ in missing], cache)
        if start and not cached:
            first = next(iter(self.recipe.train))
            self.say(f"{first}: starts from the encoder in {self.recipe.run.weights}")
        weights = cached.weights if cached else start
        if cached:
            self.account.take_over(cached.state.get("trained", {}))
        for stage, learner, path in missing:
            if weights:
                learner.adopt(weights)
            self._train(stage, learner)
            weights = {key: value.cpu() for key, value in learner.state_dict().items()}
            Checkpoint(weights, {}, {"stage": stage, "trained": self.account.trained}).save(path)
        return weights

    def _check_start(self, start: str) -> None:
        """Refuse other weights at the same place than those that the run began with."""
        if self.saved and self.saved.state.get("start", start) != start:
            raise CheckpointError(
                f"weights must be those that {self.folder.path} began with; {self.recipe.run.weights} has "
                "changed; bring it back, or begin a new run"
            )
        self.start = start

    def _check_order(self, missing: list[str], cache: Path) -> None:
        """Refuse to train a stage again that was finished when the run was saved: it would lose the later."""
        begun = self.saved.state["stage"] if self.saved else ""
        if begun in missing[1:]:
            raise CheckpointError(
                f"weights of {missing[0]} must be in {cache}, for {self.folder.path} was saved in {begun}; "
                "none there fit its settings and this version; begin a new run"
            )

    def _hand_over(self, weights: Mapping[str, Tensor], method: Method) -> None:
        """Give the method what it can use of the pretrained weights, and say what that is."""
        used = method.adopt(weights)
        heads, left = ({key.split(".")[0] for key in keys} for keys in (used, weights.keys() - set(used)))
        behind = f"; left behind: {', '.join(sorted(left))}" if left else ""
        taken = ", ".join(sorted(heads - {"encoder"})) or "no head"
        self.say(f"discover: starts from the pretrained encoder and {taken}{behind}")

    def viewer(self, learner: Learner) -> Viewer:
        return Viewer(learner, self.split.look, self.device, self.precision)

    def evaluator(self, method: Method) -> Evaluator | None:
        """None where nobody knows the truth."""
        if self.dataset.truth is None:
            return None
        return Evaluator(method, self.viewer(method), self.split.unlabelled, self.dataset.truth)

    def _given(self, path: Path) -> dict[str, Tensor]:
        weights, unused = load_pretrained(path)
        self.say(f"pretrained: {len(weights)} tensors from {path}; left out: {', '.join(unused) or 'none'}")
        if stages := ", ".join(self.recipe.pretraining):
            self.say(f"pretrained: not trained, whatever their settings: {stages}")
        return weights

    def _train(self, stage: str, learner: Learner) -> None:
        """Train a stage to its end, from the checkpoint when that belongs to it."""
        saved, saved_at = self._saved_in(stage), time.monotonic()
        first = int(saved.state["epoch"]) if saved else 0
        trainer = self._trainer(stage, learner, first)
        evaluator = self.evaluator(learner) if isinstance(learner, Method) else None
        if saved:
            self._restore(saved, trainer)
        if self._fallback and first < trainer.train.epochs:
            self.say(self._fallback)
            self._fallback = ""
        with _within_memory(stage):
            for record in trainer.run(first):
                self.account.add(trainer, record)
                done = record.epoch + 1 == record.epochs
                scores = self._curve_point(evaluator, record) if evaluator else {}
                self.log.epoch(record, scores)
                self.watch(record, scores)
                stop = self.should_stop() and not done
                if done or stop or time.monotonic() - saved_at >= self.recipe.run.checkpoint_seconds:
                    self._save(stage, trainer, record.epoch + 1)
                    saved_at = time.monotonic()
                if stop:
                    self.log.close()
                    raise Stopped
        if trainer.train.epochs == 0:
            if any(parameter.requires_grad for parameter in learner.parameters()):
                self.say(f"{stage}: no epochs, so nothing is trained")
            self._save(stage, trainer, 0)

    def _trainer(self, stage: str, learner: Learner, first: int) -> Trainer:
        """Ready to train what is left of a stage from its epoch `first` on."""
        train = self.recipe.train[stage]
        loader = stage_loader(stage, learner, self.recipe, self.split, self.device)
        bank = TrainingBank(self.viewer(learner), self.split)
        steps = loader.steps * (train.epochs - first)
        mode = resolve_mode(self.recipe.run.mode, self.device, self.precision, steps=steps)
        if (
            stage == "discover"
            and self.recipe.constraints.form != "full"
            and not self.recipe.constraints.alpha
        ):
            self.say("discover: constraints.form has no effect without constraints.alpha")
        if steps and loader.batch_size < train.batch_size:
            self.say(f"{stage}: batches have {loader.batch_size} images, for there are no more")
        if steps and train.epochs <= train.warmup:
            self.say(f"{stage}: every epoch is warm-up, so lr is hardly reached; lower warmup")
        if steps and mode != "eager":
            self.say(f"{stage}: compiling the training step, one to two minutes the first time")
        extra = extra_loss(self.recipe.constraints, self.split.task) if stage == "discover" else None
        return Trainer(
            learner, loader, train, bank, precision=self.precision, mode=mode, extra=extra, say=self.say
        )

    def _saved_in(self, stage: str) -> Checkpoint | None:
        """The checkpoint when it is one of this stage."""
        return self.saved if self.saved and self.saved.state["stage"] == stage else None

    def _restore(self, saved: Checkpoint, trainer: Trainer) -> None:
        load_strictly(trainer.learner, saved.weights, self.folder.checkpoint)
        restore_moments(trainer.learner, trainer.optimiser, saved.moments)
        if scaler := saved.state["scaler"]:
            trainer.step.scaler.load_state_dict(scaler)

    def _save(self, stage: str, trainer: Trainer, epoch: int) -> None:
        learner, look = trainer.learner, self.split.look
        state = {
            "stage": stage,
            "start": self.start,
            "epoch": epoch,
            "images": self.fingerprint,
            "num_images": num_images(self.split),
            "lines": self.log.lines,
            **self.account.as_dict(self.device),
            "scaler": trainer.step.scaler.state_dict(),
            "task": asdict(self.split.task),
            "look": asdict(look),
            "class_names": self.dataset.class_names,
        }
        self.saved = Checkpoint(learner.state_dict(), moments_of(learner, trainer.optimiser), state)
        self.saved.save(self.folder.checkpoint)

    def _curve_point(self, evaluator: Evaluator, record: EpochRecord) -> Scores:
        """The two headline numbers, in the epochs in which they are due."""
        every = self.recipe.run.evaluate_every or max(record.epochs // 50, 1)
        if (record.epoch + 1) % every and record.epoch + 1 != record.epochs:
            return {}
        report = evaluator(record.best_head)
        return {
            "task_aware.train.acc": report["task_aware"]["train"]["acc"]["mean"],
            "task_agnostic.legacy.all": report["task_agnostic"]["legacy"]["all"]["mean"],
        }
