"""When an estimate should not be trusted."""

from newfound.estimate.config import PREFIX
from newfound.estimate.trial import Estimate

FEW = 10
"""With fewer known classes than this an estimate is no more than a hint."""


def warnings_for(found: Estimate, num_known: int, num_hidden: int, most: int) -> list[str]:
    """Too little to learn from, or a best number at an end of what was tried, 0 to `most`."""
    warnings = []
    if num_known < FEW:
        learnt = f", of which the network learnt {num_known - num_hidden}" if num_hidden else ""
        few = "1 known class is little" if num_known == 1 else f"{num_known} known classes are few"
        warnings.append(f"{few} for an estimate{learnt}; take the number as a hint")
    if found.extra == (0 if num_hidden else 1):
        warnings.append(
            "the fewest clusters are best, as they are where features do not tell classes apart; "
            "there may be more novel classes"
        )
    if max(found.high, *found.preferred.values()) >= most:
        warnings.append(
            "the most novel classes that were looked for are among the best; there may be more: "
            f"raise {PREFIX}max_novel"
        )
    return warnings
