"""The IIC step written in the straightforward way of published research code, to compare ours with.

It uses Pillow on one image at a time in loader workers, one encoder call for each crop, a module for each
head, loops over views and heads, and autocast, all eager. It computes what `methods/iic.py` computes; tests
compare the two.
"""
