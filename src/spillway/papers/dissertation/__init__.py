"""The models of seed 001, chapter 5."""
