"""Numbers as people write them on a command line."""

import argparse


def whole(text: str) -> int:
    """A whole number: 2000000, 2e6, 2_000_000.

    >>> whole("2e6"), whole("2_000"), whole("0")
    (2000000, 2000, 0)
    """
    number = float(text)
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(number)


def count(text: str) -> int:
    """A number of things, one at least."""
    number = float(text)
    if number < 1 or not number.is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(number)


def seed(text: str) -> int:
    """Where randomness starts: zero or more."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is below zero")
    return number


def seconds(text: str) -> float:
    """A length of time: zero or more.

    >>> seconds("2.5"), seconds("0")
    (2.5, 0.0)
    """
    number = float(text)
    if not 0 <= number <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time")
    return number
