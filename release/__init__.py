"""How a release is made and tried: not part of what is installed."""
