"""Records, contracts, configuration and errors for all other layers, none of which it imports."""
