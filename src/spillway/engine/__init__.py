"""One task of a graph, the same on both runtimes: turns, exchange, feedback, opened shards."""
