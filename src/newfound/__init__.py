"""newfound: find the classes nobody has named in a pile of unlabelled images."""

__version__ = "0.1.0"
