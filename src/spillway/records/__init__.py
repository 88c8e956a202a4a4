"""What happened: the run directory, versioned, as JSON and Parquet."""
