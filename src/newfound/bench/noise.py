"""Random pixels of a benchmark's shape: speed does not depend on what the images show."""

import torch

from newfound.core.records import Task
from newfound.core.seed import generator
from newfound.data.augment import NORMALISATION
from newfound.data.benchmarks import FAMILIES, declaration
from newfound.data.images import Look, ResidentImages, Split, Truth


def benchmark_shape(benchmark: str) -> tuple[Task, Look]:
    """How many classes a benchmark has, and what its images look like."""
    declared = declaration(benchmark)
    family = FAMILIES[declared.family]
    look = Look(family.side, family.kind, *NORMALISATION[declared.family], family.stored)
    return Task(declared.num_known, len(declared.novel)), look


def noise_split(task: Task, look: Look, labelled: int, unlabelled: int, device: torch.device) -> Split:
    """So many labelled images, the classes in turn, and so many unlabelled ones."""
    labels = torch.arange(labelled, device=device) % task.num_known
    known = _images(labelled, look, device, "labelled")
    pile = _images(unlabelled, look, device, "unlabelled")
    return Split(known, labels, pile, task, look)


def noise_truth(split: Split, test: int, device: torch.device) -> Truth:
    """Classes for the unlabelled images, and so many test images, all classes in turn."""
    task = split.task
    novel = task.num_known + torch.arange(len(split.unlabelled), device=device) % task.num_novel
    classes = torch.arange(test, device=device) % task.num_classes
    return Truth(novel, _images(test, split.look, device, "test"), classes)


def _images(number: int, look: Look, device: torch.device, name: str) -> ResidentImages:
    shape, random = (number, 3, look.stored, look.stored), generator(device, 0, "noise", name)
    pixels = torch.randint(256, shape, dtype=torch.uint8, device=device, generator=random)
    return ResidentImages(pixels, [f"{name}/{row}" for row in range(number)])
