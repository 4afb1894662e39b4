"""Figures, maps, and the marks of classes."""
