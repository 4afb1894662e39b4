"""One paper per file. Importing the package registers the methods."""

from newfound.methods import (  # noqa: F401 (registers the methods)
    centroids,
    comex,
    dtc,
    dualrank,
    gcd,
    iic,
    joint,
    kcl,
    kmeans,
    ncl,
    openmix,
    rkd,
    rs,
    simgcd,
    uno,
)
