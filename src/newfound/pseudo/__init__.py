"""Pseudo-labels and clusterings that several methods share; none carries a gradient."""
