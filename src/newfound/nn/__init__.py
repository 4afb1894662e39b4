"""Modules with parameters: encoders, heads, normalisation and memories."""
