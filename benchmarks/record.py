"""The record of a benchmark, as stored in results/bench/."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base class: fields with a default may be missing, in older records or if they were not measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Speed(Part):
    """How fast a training step runs."""

    ms: float
    images_per_second: float
    tflops: float
    share_of_matrix_product: float
    """The step's FLOP rate relative to that of a large matrix product in the same precision."""
    peak_memory_gib: float | None
    """GPU memory; None on a CPU."""


class StepSpeed(Speed):
    """Our step in one mode."""

    mode: str = ""
    """The mode that ran: a step that cannot be compiled or captured falls back."""
    split_ms: dict[str, float] | None
    """The time of each part; each waits for the device, so the parts add up to more than `ms`."""
    compile_seconds: float
    first_losses: list[float]
    """The losses of the first steps, from the same weights and draws in every mode."""


class BaselineSpeed(Speed):
    """The straightforward step, with its loader running alongside."""

    network_ms: float
    """The time of repeated steps on one batch, without the loader."""
    split_ms: dict[str, float]
    """`augmentation` is the time of a batch when the loader runs alone."""
    precision: str
    workers: int
    times_as_long: dict[str, float] = {}
    """The ratio to our step in each mode."""


class Steps(Part):
    """Our step in every mode that was measured."""

    batch_size: int
    flops: int
    largest_loss_difference: float
    modes: dict[str, StepSpeed]


class ReferenceLosses(Part):
    """The first losses in a mode that was not timed."""

    mode: str
    first_losses: list[float]


class MethodSpeed(StepSpeed):
    """The step of one of many methods."""

    config: dict[str, object] = {}
    batch_size: int
    reference: ReferenceLosses | None = None
    largest_loss_difference: float | None = None


class Ratio(Part):
    """A term of IIC's loss: our time and that of the straightforward implementation."""

    ours_ms: float
    straightforward_ms: float
    times_as_long: float


class Terms(Part):
    """Parts of IIC's step on one batch."""

    batch_size: int
    augmentation: Ratio
    sinkhorn: Ratio
    losses: Ratio


class Cost(Part):
    """Time and peak memory of the inter-class term, forward and backward; ratios are to the closed form."""

    ms: float
    graph_ms: float | None = None
    """Replayed as a CUDA graph, where launching kernels costs nothing."""
    peak_mib: float
    times_as_long: float | None = None
    graph_times_as_long: float | None = None
    times_as_much_memory: float | None = None


class InterRow(Part):
    """The inter-class term of N known and M novel samples of C classes."""

    N: int
    M: int
    C: int
    closed_form: Cost
    matrix_product: Cost
    loops: Cost | None = None


class Evaluation(Part):
    """The speed of evaluating with both protocols."""

    images: int
    seconds: float
    images_per_second: float


class Clustering(Part):
    """Our k-means and scikit-learn's, over all numbers of clusters."""

    ours_seconds: float
    scikit_learn_seconds: float
    times_as_long: float
    inertia_ratio: float


class KMeansSpeed(Part):
    """The speed of an estimate's clusterings."""

    samples: int
    features: int
    clusters: list[int]
    restarts: int
    semi_supervised: Clustering
    plain: Clustering | None = None


class EmbedSpeed(Part):
    """The speed of embedding files with one encoder."""

    images: str
    """What the files are."""
    batch_size: int
    images_per_second: float
    network_images_per_second: float
    """The rate of the network alone, on a batch that is already on the device."""
    straightforward_images_per_second: float
    """The rate of a plain loop over a `DataLoader`."""
    workers: int
    """The number of workers of that loader, and of ours."""
    times_as_fast: float


class EmbedMemory(Part):
    """The peak memory of a call of `newfound embed`."""

    images: int
    peak_mib: float
    """The peak host memory of the call and its workers, sampled up to ten times a second."""
    seconds: float


class DiscoverTime(Part):
    """The time of a whole call of `newfound discover`."""

    call: str
    images: int
    seconds: float


class MatrixProduct(Part):
    """The rate of a large square matrix product, the yardstick for a step."""

    side: int
    tflops: float


class Record(Part):
    """Everything that was measured, with its settings, and where."""

    record: Literal["bench"]
    method: str
    benchmark: str
    images: str
    config: dict[str, object]
    commit: str
    versions: dict[str, str]
    hardware: str
    note: str | None = None
    device: str
    precision: str
    matrix_product: MatrixProduct
    step: Steps | None = None
    baseline: BaselineSpeed | None = None
    terms: Terms | None = None
    inter: list[InterRow] | None = None
    evaluation: Evaluation | None = None
    kmeans: KMeansSpeed | None = None
    methods: dict[str, MethodSpeed] | None = None
    embed: dict[str, EmbedSpeed] | None = None
    memory: list[EmbedMemory] | None = None
    """The memory of embedding."""
    discover: list[DiscoverTime] | None = None
    seconds: float

    def to_json(self) -> dict[str, object]:
        """Only the fields that were measured."""
        return self.model_dump(exclude_unset=True)
