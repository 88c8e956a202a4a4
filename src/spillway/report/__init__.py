"""Show it: one self-contained HTML page from records alone."""
