"""Records, contracts, configuration, errors: what every other layer speaks. Imports nothing of ours."""
