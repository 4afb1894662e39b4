"""How good a run is: agreement of clusters with classes, the two protocols, their summary."""
