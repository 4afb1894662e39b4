"""How long it takes to score many images by both protocols."""

from typing import Any

from newfound.bench.clock import milliseconds
from newfound.bench.machine import Machine
from newfound.bench.noise import noise_split, noise_truth
from newfound.core.config import Recipe
from newfound.core.records import Task
from newfound.data.images import Look
from newfound.engine.bank import Viewer
from newfound.engine.evaluator import Evaluator
from newfound.experiment.model import build_method


def evaluation(recipe: Recipe, task: Task, look: Look, machine: Machine) -> dict[str, Any]:
    """Both protocols on as many images as the scale says, of which a fifth are test images."""
    images, device = machine.scale.evaluation_images, machine.device
    split = noise_split(task, look, task.num_known, images - images // 5, device)
    method = build_method(recipe, task, look, device)
    viewer = Viewer(method, look, device, machine.precision)
    evaluator = Evaluator(method, viewer, split.unlabelled, noise_truth(split, images // 5, device))
    ms = milliseconds(lambda: evaluator(0), device, machine.scale.seconds)
    return {"images": images, "seconds": ms / 1000, "images_per_second": 1000 * images / ms}
