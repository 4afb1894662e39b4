"""Train the stages of a run: epochs, evaluation, checkpoints, and the account of what they took."""

import json
import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from newfound.core import dist
from newfound.core.errors import CheckpointError, RunError, ran_out_of_memory
from newfound.core.files import reading, write_text, writing
from newfound.core.learner import Learner, Method
from newfound.core.records import Task
from newfound.core.settings import Count, NonNegative, Recipe, RunConfig
from newfound.data.dataset import Dataset, Look
from newfound.data.holdout import hold_back
from newfound.data.vectors import in_memory
from newfound.engine import device as devices
from newfound.engine.checkpoint import Checkpoint, load_strictly, moments_of, restore_moments
from newfound.engine.evaluate import Evaluator, TrainingBank, Viewer
from newfound.engine.trainer import EpochRecord, Paused, Trainer, lowest
from newfound.run.events import Control, Epoch, Stopped
from newfound.run.folder import Folder
from newfound.run.models import EpochLine, Reused, Session, Timing
from newfound.run.provenance import commit, peak_memory
from newfound.run.recipe import build_stage, encoder_name, extra_loss, stage_loader
from newfound.run.weights import Stage, digest_of, key_of, last_cached, load_encoder

log = logging.getLogger(__name__)


class Account(BaseModel, extra="forbid"):
    """What the stages of a run took; it is part of the checkpoint, so a resumed run continues it."""

    trained: dict[str, Reused] = Field(default_factory=dict)
    """Stage → how it was trained, by this run or by the one whose weights it reuses."""
    sessions: list[Session] = Field(default_factory=list)
    """The training sessions of this run, the earliest first."""
    peak_memory_gib: NonNegative = 0.0

    @property
    def modes(self) -> dict[str, str]:
        """Stage of this run → the mode in which its last steps ran."""
        return {session.stage: session.mode for session in self.sessions}

    @property
    def timing(self) -> dict[str, Timing]:
        """The time of the stages that this run trained."""
        return {
            stage: Timing(seconds=how.seconds, compile_seconds=how.compile_seconds, images=how.images)
            for stage, how in self.trained.items()
            if stage in self.modes
        }

    @property
    def reused(self) -> dict[str, Reused]:
        """The stages that another run trained."""
        return {stage: how for stage, how in self.trained.items() if stage not in self.modes}

    def add(self, trainer: Trainer, stage: str, epoch: int, took: Timing) -> None:
        """Add what an epoch took, or a method without epochs."""
        device = trainer.loader.device
        session = Session(
            stage=stage,
            epoch=epoch,
            commit=commit(),
            hardware=devices.hardware(device),
            precision=devices.precision_name(trainer.step.precision),
            mode=trainer.step.mode,
        )
        if not self.sessions or self.sessions[-1].model_copy(update={"epoch": epoch}) != session:
            self.sessions.append(session)
        own = [each for each in self.sessions if each.stage == stage]
        before = self.trained.get(stage, Timing(seconds=0.0, images=0))
        self.trained[stage] = Reused(
            seconds=before.seconds + took.seconds,
            compile_seconds=before.compile_seconds + took.compile_seconds,
            images=(before.images or 0) + (took.images or 0),
            mode=" and ".join(dict.fromkeys(each.mode for each in own)),
            commit=" and ".join(dict.fromkeys(each.commit for each in own)),
            hardware=" and ".join(dict.fromkeys(each.hardware for each in own)),
        )
        self.peak_memory_gib = max(self.peak_memory_gib, round(peak_memory(device), 3))

    def take_over(self, trained: dict[str, Reused]) -> None:
        """Take over stages that another run has finished, dropping what this run had trained of them."""
        others = {stage for stage, how in trained.items() if self.trained.get(stage) != how}
        self.sessions = [session for session in self.sessions if session.stage not in others]
        self.trained |= trained


class State(BaseModel, extra="forbid"):
    """The content of a checkpoint besides tensors."""

    stage: str
    epoch: Count
    step: Count = 0
    """The number of steps done if the checkpoint was taken within this epoch."""
    seconds: NonNegative = 0.0
    """The time of these steps."""
    start: str
    """Digest of the weights that the first stage started from."""
    images: str
    """Fingerprint of the data set."""
    num_images: tuple[Count, Count]
    """The numbers of labelled and of unlabelled images."""
    lines: list[EpochLine]
    account: Account
    scaler: dict[str, int | float]
    task: Task
    look: Look
    class_names: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> tuple["State", Checkpoint]:
        """Load the state of a run's checkpoint, and the checkpoint itself."""
        checkpoint = Checkpoint.load(path)
        with reading(path, "the checkpoint of a run", CheckpointError):
            return cls.model_validate(checkpoint.state), checkpoint


def best_head(lines: list[EpochLine]) -> int:
    """The head of lowest loss in the last epoch of discovery; no labels are used to choose it."""
    discovery = [line for line in lines if line.stage == "discover"]
    return lowest(discovery[-1].head_losses if discovery else [])


class Training:
    """Trains the stages of a run in its folder, saves checkpoints, and resumes from them."""

    def __init__(
        self, folder: Folder, data: Dataset, recipe: Recipe, control: Control, work: Mapping[str, float]
    ) -> None:
        """`work` is the amount of work of each stage, and of anything that follows them."""
        self.folder, self.recipe, self.control, self.work = folder, recipe, control, work
        self.device = devices.resolve_device(recipe.run.device)
        self.precision = devices.resolve_precision(recipe.run.precision, self.device)
        self._fallback = fallback_reason(recipe.run, self.device, self.precision)
        self.fingerprint = data.fingerprint()  # before the move to the device, which keeps the digest
        seen, self.held = hold_back(data)
        self.whole = seen.to(self.device)
        """The data set without `held`, the known images that training must not see."""
        self.data = in_memory(self.whole, recipe.run.sample, recipe.run.seed).to(self.device)
        """The data set to train on: a sample if there are too many vectors."""
        self.num_images = len(data.split.labelled), len(data.split.unlabelled)
        self.account, self.start, self.lines = Account(), "", list[EpochLine]()
        self.resumed = State.load(folder.checkpoint) if folder.checkpoint.exists() else None
        """The checkpoint from which the run resumes."""
        if self.resumed:
            state, _ = self.resumed
            check_same_images(folder, data, state)
            self.account, self.lines = state.account, list(state.lines)
        self.log = MetricsLog(folder, self.lines)
        self._stop, self._due = False, time.monotonic() + recipe.run.checkpoint_seconds

    def viewer(self, learner: Learner) -> Viewer:
        return Viewer(learner, self.data.split.look, self.device, self.precision)

    def evaluator(self, method: Method, data: Dataset) -> Evaluator | None:
        """The evaluator of a method; None without ground truth."""
        if data.truth is None:
            return None
        return Evaluator(method, self.viewer(method), data.split.unlabelled, data.truth)

    def begun(self, stage: str) -> tuple[State, Checkpoint] | None:
        """The checkpoint from which the run resumes, if it belongs to this stage."""
        return self.resumed if self.resumed and self.resumed[0].stage == stage else None

    def train(self, stage: str, learner: Learner) -> None:
        """Train a stage to its end, starting from the checkpoint if that belongs to it."""
        begun, paused, start = self.begun(stage), None, time.monotonic()
        first = begun[0].epoch if begun else 0
        trainer = self._trainer(stage, learner, first)
        evaluator = self.evaluator(learner, self.data) if isinstance(learner, Method) else None
        if begun:
            state, saved = begun
            load_strictly(learner, saved.weights, self.folder.checkpoint)
            with reading(self.folder.checkpoint, "a checkpoint of this optimiser", CheckpointError):
                restore_moments(learner, trainer.optimiser, saved.moments)
                if state.scaler:
                    trainer.step.scaler.load_state_dict(state.scaler)
            paused = Paused(first, state.step, state.seconds, saved.paused) if state.step else None

        def save(paused: Paused) -> None:
            self._save(stage, trainer, paused.epoch, paused)
            if self._stop:
                raise Stopped

        with _within_memory(stage):
            for record in trainer.run(first, paused, self._must_save, save):
                seen = trainer.loader.steps * trainer.loader.batch_size
                took = Timing(seconds=record.seconds, compile_seconds=record.compile_seconds, images=seen)
                self.account.add(trainer, stage, record.epoch, took)
                done = record.epoch + 1 == record.epochs
                scores = self._scores(evaluator, record) if evaluator else {}
                self.log.add(record, scores)
                self.control.watch(Epoch(record, scores, self._ahead(stage)))
                if self._must_save() or done:
                    self._save(stage, trainer, record.epoch + 1)
                if self._stop and not done:
                    raise Stopped
        if trainer.train.epochs == 0:
            if stage == "discover" and any(parameter.requires_grad for parameter in learner.parameters()):
                log.info("%s: epochs=0, nothing is trained", stage)
            if stage == "discover":
                self.account.add(trainer, stage, 0, Timing(seconds=time.monotonic() - start))
            self._save(stage, trainer, 0)

    def _must_save(self) -> bool:
        """Whether a checkpoint is due: the run is to stop, or the last one is old."""
        self._stop = self.control.should_stop()
        return self._stop or time.monotonic() >= self._due

    def pretrain(self, until: str | None = None) -> Mapping[str, Tensor]:
        """The weights after the stages before discovery, or after `until`: cached ones, or newly trained."""
        recipe, split, given = self.recipe, self.data.split, self.recipe.run.weights
        start = load_encoder(Path(given), encoder_name(recipe, split.look)) if given else {}
        self.start = digest_of(start)
        if self.resumed and self.resumed[0].start != self.start:
            raise CheckpointError(f"{given} has changed since the run in {self.folder.path} began.")
        stages, key = list[Stage](), self.start
        for stage in recipe.pretraining[: recipe.pretraining.index(until) + 1 if until else None]:
            learner = build_stage(stage, recipe, split.task, split.look, self.device)
            key = key_of(stage, learner, key, recipe, split, self.device, self.precision)
            stages.append((stage, learner, self.folder.cache / f"{key}.safetensors"))
        cached, missing = last_cached(stages)
        if self.resumed and self.resumed[0].stage in [stage for stage, *_ in missing][1:]:
            raise CheckpointError(
                f"The weights of {missing[0][0]} are gone from {self.folder.cache}, but the run was saved in "
                f"{self.resumed[0].stage}. Start a new run."
            )
        if start and not cached:
            log.info("%s: encoder loaded from %s", next(iter(recipe.train)), given)
        weights = cached.weights if cached else start
        if cached:
            trained = cached.state.get("trained", {})
            self.account.take_over({name: Reused.model_validate(how) for name, how in trained.items()})
        for stage, learner, path in missing:
            if weights:
                learner.adopt(weights)
            self.train(stage, learner)
            weights = {name: value.cpu() for name, value in learner.state_dict().items()}
            trained = {name: how.model_dump() for name, how in self.account.trained.items()}
            Checkpoint(weights, {}, {"stage": stage, "trained": trained}).save(path)
        return weights

    def _trainer(self, stage: str, learner: Learner, first: int) -> Trainer:
        """The trainer for a stage from its epoch `first` on."""
        train, constraints = self.recipe.train[stage], self.recipe.constraints
        loader = stage_loader(stage, learner, self.recipe, self.data.split, self.device)
        bank = TrainingBank(self.viewer(learner), self.data.split)
        steps = loader.steps * (train.epochs - first)
        mode = devices.resolve_mode(self.recipe.run.mode, self.device, self.precision, steps=steps)
        if mode == "graph" and dist.world() > 1:
            log.info("%s: with several processes, the step is compiled but not captured as a graph", stage)
            mode = "compiled"
        if self._fallback and steps:
            log.info(self._fallback)
            self._fallback = ""
        if stage == "discover" and constraints.form != "full" and not constraints.alpha:
            log.warning("constraints.form has no effect without constraints.alpha")
        if steps and loader.batch_size < train.batch_size:
            log.info("%s: fewer images than batch_size; batches of %d are used", stage, loader.batch_size)
        if steps and mode != "eager":
            log.info("%s: compiling the training step, which takes a minute or two the first time", stage)
        extra = extra_loss(constraints, self.data.split.task) if stage == "discover" else None
        return Trainer(learner, loader, train, bank, precision=self.precision, mode=mode, extra=extra)

    def _save(self, stage: str, trainer: Trainer, epoch: int, paused: Paused | None = None) -> None:
        start, split = time.monotonic(), self.data.split
        state = State(
            stage=stage,
            epoch=epoch,
            step=paused.step if paused else 0,
            seconds=paused.seconds if paused else 0.0,
            start=self.start,
            images=self.fingerprint,
            num_images=self.num_images,
            lines=self.lines,
            account=self.account,
            scaler=trainer.step.scaler.state_dict(),
            task=split.task,
            look=split.look,
            class_names=self.data.class_names,
        )
        weights, moments = trainer.learner.state_dict(), moments_of(trainer.learner, trainer.optimiser)
        tensors = paused.tensors if paused else {}
        Checkpoint(weights, moments, state.model_dump(mode="json"), tensors).save(self.folder.checkpoint)
        now = time.monotonic()
        # A checkpoint that takes more than a second is taken more rarely.
        self._due = now + self.recipe.run.checkpoint_seconds * max(now - start, 1.0)

    def _ahead(self, stage: str) -> float:
        """The work of everything after a stage, in epochs of this stage."""
        stages = list(self.work)
        after = stages[stages.index(stage) + 1 :]
        return sum(self.work[each] for each in after) * self.recipe.train[stage].epochs / self.work[stage]

    def _scores(self, evaluator: Evaluator, record: EpochRecord) -> dict[str, float]:
        """The main scores; none in epochs that are not evaluated."""
        every = self.recipe.run.evaluate_every or max(record.epochs // 50, 1)
        if (record.epoch + 1) % every and record.epoch + 1 != record.epochs:
            return {}
        report = evaluator(record.best_head)
        scores = {"task_aware.train.acc": report.task_aware.train.acc.mean}
        if report.task_agnostic:
            scores["task_agnostic.legacy.all"] = report.task_agnostic.legacy.all.mean
        if report.generalised:
            scores["generalised.train.all"] = report.generalised.train.all.mean
        return {name: value for name, value in scores.items() if value is not None}


def fallback_reason(run: RunConfig, device: torch.device, precision: torch.dtype) -> str:
    """Why `auto` did not choose the fastest settings; empty if it did."""
    if run.device == "auto" and device.type == "cpu":
        return "no GPU found; training on the CPU"
    if run.precision == "auto" and precision == torch.float16:
        return f"{devices.hardware(device)} has no bf16; training in fp16 without CUDA graphs"
    return ""


@contextmanager
def _within_memory(stage: str) -> Iterator[None]:
    """Raise one clear error if memory runs out in a stage."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out_of_memory(error):
            raise
        prefix = "" if stage == "discover" else f"{stage}."
        raise RunError(
            f"Out of memory in {stage}. Resume where more memory is free, or start a new run with a smaller "
            f"{prefix}batch_size or smaller images."
        ) from error


class MetricsLog:
    """Writes metrics.jsonl, one line per epoch, and TensorBoard's log if that is installed."""

    def __init__(self, folder: Folder, lines: list[EpochLine]) -> None:
        """Continue after the `lines` of the checkpoint; later epochs are trained again."""
        self.path, self.lines = folder.metrics, lines
        name = f"events.out.tfevents.{int(time.time())}.{secrets.token_hex(4)}"
        self.board = folder.path / "tensorboard" / name
        write_text(self.path, "".join(f"{line.model_dump_json()}\n" for line in lines))
        self._show({"file_version": "brain.Event:2"}, {"session_log": {"status": 1}})

    def add(self, record: EpochRecord, scores: dict[str, float]) -> None:
        values = {key: value for key, value in asdict(record).items() if key != "epochs"}
        line = EpochLine(**values, scores=scores)
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line.model_dump()) + "\n")
        shown = (record.losses | scores | {"lr": record.lr}).items()
        tags = [{"tag": f"{record.stage}/{name}", "simple_value": value} for name, value in shown]
        self._show({"summary": {"value": tags}})
        self.lines.append(line)

    def _show(self, *events: Mapping[str, object]) -> None:
        """Write events of the next epoch, counted across stages, to TensorBoard's log.

        SummaryWriter writes in a thread, which ends in a traceback if the file cannot be written.
        """
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError:
            return
        with writing(self.board):
            self.board.parent.mkdir(exist_ok=True)
            with self.board.open("ab") as file:
                for event in events:
                    made = Event(wall_time=time.time(), step=len(self.lines) + 1, **event)
                    RecordWriter(file).write(made.SerializeToString())


def check_same_images(folder: Folder, data: Dataset, state: State | None = None) -> None:
    """Refuse images or class names that have changed since the run began, as its `state` says."""
    state = state or State.load(folder.checkpoint)[0]
    then, now = state.num_images, (len(data.split.labelled), len(data.split.unlabelled))
    changed = then != now or state.images not in data.fingerprints()
    known = slice(data.num_known)  # if the run has only pretrained, novel classes may have no names yet
    if changed or state.class_names[known] != data.class_names[known]:
        counts = f" ({then[0]:,} + {then[1]:,} images then, {now[0]:,} + {now[1]:,} now)" * (then != now)
        what = "images" if changed else "class names"
        raise RunError(
            f"The {what} of {folder.path} have changed since it began{counts}. Restore them, or start a new "
            "run."
        )
