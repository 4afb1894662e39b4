"""Losses: pure functions, tensors in, a scalar or one value for each head out."""
