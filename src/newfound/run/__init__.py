"""The conductor, from data, a recipe and a folder to results; its folder and its records."""
