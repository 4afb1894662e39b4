"""Networks: encoders, heads, and the weight files they can start from."""
