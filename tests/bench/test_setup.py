"""What a call stands for."""

from newfound.bench.setup import PARTS, checked_setup


def test_by_default_all_that_suits() -> None:
    assert checked_setup("iic", "cifar100-50", {}).parts == PARTS
    assert checked_setup("uno-v2", "cifar10", {}).parts == ("step", "inter", "evaluation", "kmeans")
    assert checked_setup("iic", "digits", {}).parts == ("step", "inter", "evaluation", "kmeans")
    assert checked_setup("iic", "cifar10", {"device": "cpu"}).modes == ("eager",)


def test_the_step_is_smaller_than_the_terms_on_a_cpu() -> None:
    setup = checked_setup("iic", "cifar10", {"device": "cpu"})
    assert setup.recipe.train["discover"].batch_size == 512
    assert setup.step_recipe.train["discover"].batch_size == setup.scale.step["batch_size"]
    assert setup.step_recipe.run.encoder == "small"
    given = checked_setup("iic", "cifar10", {"device": "cpu", "batch_size": "64"})
    assert given.step_recipe.train["discover"].batch_size == 64
