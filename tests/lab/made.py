"""Results of runs that never were."""

from newfound.metrics.report import Accuracies, Clusters, Score, TaskAgnostic, TaskAware
from newfound.run.models import Results, Timing


def results(
    method: str = "iic",
    acc: float = 0.9,
    *,
    recipe: str = "published",
    benchmark: str = "cifar10",
    seed: int = 0,
    nmi: float | None = None,
    agnostic: float | None = None,
    seconds: float | None = 10.0,
) -> Results:
    """One run with these numbers as the mean over its heads."""
    clusters = Clusters(
        acc=Score(mean=acc), nmi=Score(mean=nmi), ari=Score(), per_class_accuracy=[], cluster_sizes=[]
    )
    shares = Accuracies(known=Score(), novel=Score(), all=Score(mean=agnostic))
    return Results(
        method=method,
        recipe=recipe,
        benchmark=benchmark,
        seed=seed,
        config={},
        commit="",
        versions={},
        hardware="",
        timing={} if seconds is None else {"discover": Timing(seconds=seconds, images=5000)},
        task_aware=TaskAware(train=clusters, test=clusters),
        task_agnostic=None
        if agnostic is None
        else TaskAgnostic(**{"legacy": shares, "novel-ids": shares, "joint": shares}),
    )
