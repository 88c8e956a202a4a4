"""The experiments of seed 004: what a crash costs with and without a checkpoint, and what checkpoints of joins cost."""
