"""Research: methods compared, settings calibrated, published recipes reproduced, the papers' tables."""
