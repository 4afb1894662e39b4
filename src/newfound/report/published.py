"""The paper's numbers that ours are held against."""

TASK_AWARE_ACC: dict[str, dict[str, float]] = {
    "kmeans": {"cifar10": 72.5, "cifar100-20": 56.3, "cifar100-50": 28.3, "imagenet-30": 71.9},
    "uno-v1": {"cifar10": 96.1, "cifar100-20": 85.0, "cifar100-50": 52.9, "imagenet-30": 90.6},
    "uno-v2": {"cifar10": 93.3, "cifar100-20": 90.5, "cifar100-50": 62.3, "imagenet-30": 90.7},
    "iic": {"cifar10": 99.1, "cifar100-20": 92.4, "cifar100-50": 65.8, "imagenet-30": 91.9},
}
"""Method → benchmark → clustering accuracy in % by the task-aware protocol on the training split."""
