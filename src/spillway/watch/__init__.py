"""A run as it goes, in a browser and for Prometheus: a small server that reads a run directory and nothing else."""
