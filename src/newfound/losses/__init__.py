"""Losses that several methods share: pure functions of tensors that return a scalar or one value per head."""
