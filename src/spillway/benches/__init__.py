"""Measurements as commands: each is a run whose figures are written to records."""
