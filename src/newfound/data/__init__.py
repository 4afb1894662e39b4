"""Images and what is known of them: sets, splits, named benchmarks, readers of files and arrays."""
