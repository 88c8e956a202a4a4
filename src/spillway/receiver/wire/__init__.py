"""What goes over a connection: frames, items and their schema."""
