"""Measures speed and memory on the machine at hand: our step against a straightforward one, and its parts."""
