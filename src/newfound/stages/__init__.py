"""Pretraining stages that methods share. Importing the package registers them."""

from newfound.stages import centres, rotnet, similarity, supervised  # noqa: F401 (registers the stages)
