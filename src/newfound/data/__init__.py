"""Images and what is known about them: sets, splits, benchmarks, readers of files and arrays."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from newfound.core.errors import Hint, UsageError
from newfound.core.source import Source

if TYPE_CHECKING:
    from newfound.data.dataset import Dataset
    from newfound.data.vectors import Frozen


def load(
    source: Source, frozen: "Frozen | None" = None, unread: bool = False, cache: Path | None = None
) -> "Dataset":
    """Read the images of a source; embed them if it has a frozen encoder, which is then given.

    `unread` leaves a user's own files for later, without a look at them; the folder `cache` remembers which
    of them are damaged.
    """
    # Imported here, so that the package itself can be imported without torch.
    from newfound.data.folders import from_folders
    from newfound.data.holdout import hold_out

    if source.arrays:
        raise UsageError("These images were passed in Python and cannot be loaded again.")
    foreign = ["data_dir"] if not source.benchmark else ["labelled", "unlabelled", "embeddings"]
    foreign += ["unlabelled", "size", "subset"] if source.embeddings else []
    foreign += ["size"] if source.frozen else []
    if source.benchmark and not source.estimated:
        foreign.append("num_novel")
    if given := [name for name in foreign if getattr(source, name) is not None]:
        kind = "a benchmark" if source.benchmark else "embeddings" if source.embeddings else "your own images"
        kind = "a frozen encoder" if source.frozen else kind
        raise UsageError(f"{', '.join(given)} cannot be combined with {kind}.")
    if source.held_out is not None:
        # The number only decides how many unlabelled images are read, and hold_out drops them.
        update = {"held_out": None, "num_novel": None if source.benchmark else 1, "estimated": None}
        dataset = hold_out(
            load(source.model_copy(update=update), frozen, cache=cache), source.held_out, source.held_out_draw
        )
    elif source.benchmark:
        from newfound.data.benchmarks import load_benchmark

        dataset = load_benchmark(source.benchmark, source.data_dir, source.subset)
        if source.num_novel is not None:
            dataset = dataset.with_num_novel(source.num_novel)
        if source.pile is not None:
            dataset = replace(dataset, split=replace(dataset.split, pile=source.pile))
        if frozen:
            from newfound.data.vectors import embedded

            dataset = embedded(dataset, frozen)
    elif source.labelled and source.embeddings:
        from newfound.data.vectors import from_embedding_files

        dataset = from_embedding_files(
            source.embeddings,
            source.labelled,
            source.num_novel,
            pile=source.pile,
            more=source.more_embeddings,
        )
        assert dataset.source is not None
        source = source.model_copy(update={"embedded_by": dataset.source.embedded_by})
    elif source.labelled and source.unlabelled:
        options = source.model_dump(include={"num_novel", "pile", "size", "strict", "subset"})
        options |= {"frozen": frozen, "unread": unread, "cache": cache}
        dataset = from_folders(source.labelled, source.unlabelled, **options)
    elif source.embeddings:
        raise UsageError(
            "Embeddings need labels for some of them: pass `labelled`, a CSV of paths and labels."
        )
    else:
        which = "Only labelled" if source.labelled else "Only unlabelled" if source.unlabelled else "No"
        raise UsageError(f"{which} images were given.", Hint.SOURCE)
    reason = f"by {source.frozen}" if frozen else dataset.size_reason
    return replace(dataset, source=source, size_reason=reason)
