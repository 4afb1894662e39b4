"""Evaluation: agreement of clusters with classes, the three protocols, outliers and calibration."""
