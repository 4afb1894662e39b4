"""One paper per file. Importing the package registers them."""

from newfound.methods import comex, dtc, dualrank, iic, joint, kcl, kmeans, ncl, openmix, rkd, rs, uno

__all__ = ["comex", "dtc", "dualrank", "iic", "joint", "kcl", "kmeans", "ncl", "openmix", "rkd", "rs", "uno"]
