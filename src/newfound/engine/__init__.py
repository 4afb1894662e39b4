"""Runs learners and scores methods; knows none of them by name."""
