"""Figures, maps, thumbnails and their colours."""
