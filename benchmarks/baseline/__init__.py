"""The IIC step in the straightforward manner of published research codes, to compare ours with.

Pillow on one image at a time in loader workers, one encoder call for each crop, a module for each head, loops
over views and heads, autocast, eager. It computes what `methods/iic.py` computes; tests compare the two.
"""
