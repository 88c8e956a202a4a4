"""Seed 003: efficient coordinated operator checkpointing (ECOC), its evaluation and what its figures show."""
