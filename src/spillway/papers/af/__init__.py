"""The papers' experiments as functions: parameters in, figures out. Commands print them, reports draw them."""
