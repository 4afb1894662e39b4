"""One paper per file. Importing the package registers them, and methods in files of one's own after them."""

from newfound.core.own_methods import import_own_methods
from newfound.methods import (  # noqa: F401 (what matters is that they register)
    comex,
    dtc,
    dualrank,
    iic,
    joint,
    kcl,
    kmeans,
    ncl,
    openmix,
    rkd,
    rs,
    uno,
)

import_own_methods()
