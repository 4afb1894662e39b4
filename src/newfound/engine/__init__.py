"""Runs learners and scores methods, without knowing any of them by name."""
