"""How good a run is: agreement of clusters with classes, the three protocols, their summary."""
