"""What to choose: the cheapest protection that keeps the answer good enough."""
