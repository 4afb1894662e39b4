"""What a person makes of the classes that a run found: named, merged, split, exported."""
