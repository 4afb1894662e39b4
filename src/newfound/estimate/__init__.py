"""How many novel classes are there: from features and the labels of known classes alone."""
