"""What to believe about unlabelled samples: targets, never with a gradient."""
