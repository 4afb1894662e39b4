"""Modules with parameters: encoders, heads, normalisation, memories."""
