"""Research: compare methods, calibrate settings, reproduce published recipes, print the paper's tables."""
