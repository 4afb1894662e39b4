"""From data, a recipe and a folder to results: the conductor, its folder, and the records it leaves."""
