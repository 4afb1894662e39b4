"""What a person looks at: figures and tables, drawn from arrays and plain dicts."""
