"""One paper per file. Importing the package registers them."""

from newfound.methods import iic, kmeans, rs, uno

__all__ = ["iic", "kmeans", "rs", "uno"]
