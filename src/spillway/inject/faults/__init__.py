"""Fault models, one file each; `spillway.inject.models` finds them."""
