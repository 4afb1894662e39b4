"""Pseudo-labels of unlabelled samples that several methods share; none carries a gradient."""
