"""The fault-injection experiments of seed 000."""
