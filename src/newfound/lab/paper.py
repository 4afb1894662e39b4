"""The numbers of the paper's tables, as it prints them; accuracies in %."""

BENCHMARKS = ("cifar10", "cifar100-20", "cifar100-50", "imagenet-30")

ABLATION = {
    # (inter-class, intra-class): ACC, NMI, ARI on CIFAR10, CIFAR100-20 and CIFAR100-50
    ("no", "no"): "93.25 .8717 .8565 90.54 .8475 .8123 62.27 .6781 .4688",
    ("yes", "no"): "99.07 .9644 .9770 92.17 .8695 .8448 64.31 .7046 .5102",
    ("no", "yes"): "93.60 .8753 .8624 91.13 .8506 .8193 63.35 .6800 .4729",
    ("yes", "yes"): "99.11 .9657 .9780 92.48 .8727 .8508 65.85 .7106 .5238",
}
SKLD_AGAINST_MSE = {
    "Baseline": "93.25 90.54 62.27",
    "+ MSE": "93.11 90.96 62.47",
    "+ sKLD": "93.60 91.13 63.35",
}
TASK_AWARE = {
    "kmeans": "72.5±0.0 56.3±1.7 28.3±0.7 71.9",
    "kcl": "72.3±0.2 42.1±1.8 - 73.8",
    "mcl": "70.9±0.1 21.5±2.3 - 74.4",
    "dtc": "88.7±0.3 67.3±1.2 35.9±1.0 78.3",
    "rs": "90.4±0.5 73.2±2.1 39.2±2.3 82.5",
    "rs+": "91.7±0.9 75.2±4.2 44.1±3.7 82.5",
    "openmix": "95.3 - - 85.7",
    "ncl": "93.4±0.5 86.6±0.4 - 90.7",
    "joint": "93.4±0.6 76.4±2.8 - 86.7",
    "uno-v1": "96.1±0.5 85.0±0.6 52.9±1.4 90.6",
    "uno-v2": "93.3±0.4 90.5±0.7 62.3±1.4 90.7",
    "dualrank": "91.6±0.6 75.3±2.3 - 88.9",
    "comex": "93.6±0.3 85.7±0.7 53.4±1.3 90.9",
    "iic": "99.1±0.0 92.4±0.2 65.8±0.9 91.9",
}
LATER = {
    # published after the paper, as its authors quote it
    "rkd": "- 91.2 65.3 -",
}
TASK_AGNOSTIC = {
    # known, novel, all on CIFAR10, CIFAR100-20 and CIFAR100-50
    "kcl": "79.4 60.1 69.8 23.4 29.4 24.6 - - -",
    "mcl": "81.4 64.8 73.1 18.2 18.0 18.2 - - -",
    "dtc": "58.7 78.6 68.7 47.6 49.1 47.9 30.2 34.7 32.5",
    "rs+": "90.6 88.8 89.7 71.2 56.8 68.3 69.7 40.9 55.3",
    "uno-v1": "93.5 93.3 93.4 73.2 73.1 73.2 71.5 50.7 61.1",
    "comex": "95.0 92.6 93.8 75.2 77.3 75.6 75.3 53.5 64.4",
    "iic": "96.0 97.2 96.6 75.9 78.4 77.2 75.1 61.0 68.1",
}
APPENDIX = "appendix"
"""The variation with the weights that both tables of the appendix fix, where a method has one."""
NOVEL_COUNTS = (20, 30, 40, 50, 60, 70, 80)
MORE_NOVEL = {
    "uno-v2": "90.5±0.7 76.7±2.0 66.8±1.7 62.3±1.4 57.9±0.9 56.0±1.1 56.2±1.0",
    "iic": "92.4±0.2 83.8±1.6 71.1±1.4 65.8±0.9 60.6±0.4 57.7±1.0 57.4±0.9",
}
ESTIMATES = {"cifar100-20": 23}
"""The number of novel classes that the paper estimates and uses, if the true one is not known."""
UNKNOWN_NUMBER = {
    # CIFAR100-20 with the true number, 20, and the estimate, 23
    "dtc": "67.3±1.2 64.3",
    "rs": "73.2±2.1 70.5",
    "rs+": "75.2±4.2 71.2",
    "uno-v1": "85.0±0.6 75.1",
    "uno-v2": "90.5±0.7 71.5±1.8",
    "iic": "92.4±0.2 85.1±0.9",
}


def task_aware_acc(method: str) -> dict[str, float]:
    """Benchmark → the published mean accuracy by the task-aware protocol on the training split."""
    cells = {**TASK_AWARE, **LATER}.get(method, "").split()
    return {
        benchmark: float(cell.split("±")[0])
        for benchmark, cell in zip(BENCHMARKS, cells, strict=False)
        if cell != "-"
    }


def task_agnostic_all(method: str) -> dict[str, float]:
    """Benchmark → the paper's accuracy over all classes by the task-agnostic protocol."""
    cells = TASK_AGNOSTIC[method].split()[2::3] if method in TASK_AGNOSTIC else []
    return {benchmark: float(cell) for benchmark, cell in zip(BENCHMARKS, cells, strict=False) if cell != "-"}
