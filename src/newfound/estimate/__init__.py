"""The number of novel classes, estimated from features and the labels of the known classes alone."""
