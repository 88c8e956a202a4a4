"""Measures of a model that are zero in every setting, as a sentence: an empty chart or a column of zeros says less."""

from collections.abc import Mapping, Sequence

_NOUNS = {
    "tainted": "tainted tuple",
    "within_bound": "tuple that was off within a bound",
    "output": "output",
    "duplicates": "duplicate",
    "lost": "lost tuple",
    "delayed": "tuple that had to wait",
    "processor_s": "processor in use",
}
# Says no more than another measure that is zero with it.
_SAID_BY = {"tainted_share": "tainted"}


def is_zero(rows: Sequence[Mapping[str, float]], measure: str) -> bool:
    """Whether a measure is zero in all rows; for a share of time that things were right: the share they were not."""
    if measure.startswith("availability"):
        return all(row[measure] == 1 for row in rows)
    return not any(row[measure] for row in rows)


def zero_sentence(rows: Sequence[Mapping[str, float]], measures: Sequence[str]) -> str:
    """What is zero in all rows; nothing to say if none is.

    >>> rows = [{"availability": 1.0, "lost": 0.0, "duplicates": 0.0, "delayed": 3.0}]
    >>> zero_sentence(rows, ["availability", "lost", "delayed", "duplicates"])
    'Everything was available all of the time. Under all of these there was no lost tuple and no duplicate.'
    >>> zero_sentence(rows, ["delayed"])
    ''
    """
    zero = [measure for measure in measures if is_zero(rows, measure)]
    said = ["Everything was available all of the time."] if "availability" in zero else []
    nouns = list(
        dict.fromkeys(f"no {_NOUNS[name]}" for name in (_SAID_BY.get(each, each) for each in zero) if name in _NOUNS)
    )
    if nouns:
        *first, last = nouns
        said.append(f"Under all of these there was {', '.join(first)}{' and ' if first else ''}{last}.")
    return " ".join(said)
