"""How a kind of data is trained, where methods agree: settings that they share, pretraining included."""

DIGITS_PRETRAINING = {"pretrain.epochs": 60, "pretrain.batch_size": 64, "pretrain.warmup": 2}
DIGITS = {
    "overcluster": 10,
    "hidden": 256,
    "projection": 64,
    "small_crops": 0,
    "epochs": 60,
    "batch_size": 64,
    "lr": 0.1,
    "warmup": 4,
    **DIGITS_PRETRAINING,
}
"""Ours, for scans of 8 x 8 pixels; chosen by accuracy on the novel digits, seeds 100 to 104."""

OWN_PRETRAINING = {"pretrain.epochs": 100, "pretrain.batch_size": 64, "pretrain.lr": 0.05}
OWN = {"epochs": 200, "batch_size": 128, "lr": 0.1, **OWN_PRETRAINING}
"""Ours, for a person's own hundreds or thousands of images: smaller batches, so that an epoch has many."""

IMAGENET = {
    "epochs": 60,
    "batch_size": 512,
    "labelled_share": "half",
    "warmup": 5,
    "pretrain.epochs": 100,
    "pretrain.batch_size": 512,
    "pretrain.warmup": 5,
}
"""UNO's and IIC's, two GPUs taken together.

Deviation: one process sees the whole batch of 512, so that Sinkhorn and the inter-class term see 256
unlabelled images and not each GPU's 128; and the sets are shuffled apart, where the published loader pairs
images for good.
"""
