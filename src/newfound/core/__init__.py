"""Records, contracts, configuration and errors, which every other layer uses; imports none of them."""
