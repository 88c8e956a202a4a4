"""Lines of text: made from a seed, or read from files.

The made-up words are pronounceable, so that a screen full of them can be told apart. A word is the number of its rank,
written with a hundred syllables for digits; the seed decides which syllable is which digit. Short words are therefore
the frequent ones, as in any language, and a vocabulary of 10,100 or more has every word of two syllables in it.
"""

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps.app import Option
from spillway.apps.making import Pieces, heavy_tailed
from spillway.apps.reading import Files
from spillway.errors import InputError
from spillway.graph.feeds import SEQ, SEQ_FIELD, SUFFIXES, Feed, Generator, Trace
from spillway.graph.files import Format
from spillway.seeds import generator

LINES = pa.schema([SEQ_FIELD, pa.field("line", pa.string(), nullable=False)])

OPTIONS = (
    Option(name="vocabulary", default=20_000, meaning="how many different words there are", least=1, most=10**8),
    Option(name="words_per_line", default=10, meaning="how many words a line has", least=1, most=1000),
    Option(name="exponent", default=1.0, meaning="how steeply frequency falls with rank", least=0, most=10),
)

_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """One piece of generated text: a function of its number."""

    seed: int
    cut: Pieces
    vocabulary: int
    words_per_line: int
    exponent: float

    def __call__(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        random = generator(self.seed, "lines", piece)
        count = len(seqs) * self.words_per_line
        ranks = heavy_tailed(random, count, ranks=self.vocabulary, exponent=self.exponent)
        words = vocabulary(self.seed, self.vocabulary).take(pa.array(ranks))
        if self.words_per_line > 1:
            ends = pa.array(np.arange(0, count + 1, self.words_per_line, dtype=np.int32))
            words = pc.binary_join(pa.ListArray.from_arrays(ends, words), " ")
        return pa.RecordBatch.from_arrays([seqs, words], schema=LINES)


def generate_lines(
    *,
    seed: int,
    tuples: int,
    tuples_per_batch: int,
    pieces_per_batch: int,
    vocabulary: int,
    words_per_line: int,
    exponent: float,
) -> Generator:
    """Lines of words whose frequency falls with their rank."""
    cut = Pieces.of(tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
    lines = Lines(seed=seed, cut=cut, vocabulary=vocabulary, words_per_line=words_per_line, exponent=exponent)
    return Generator(make=lines, schema=LINES, pieces=cut.count, pieces_per_batch=pieces_per_batch)


@lru_cache(maxsize=2)
def vocabulary(seed: int, size: int) -> pa.Array:
    """Different words, the most frequent first.

    >>> words = vocabulary(7, 10_200).to_pylist()
    >>> len(set(words)), {len(word) for word in words[:100]}, {len(word) for word in words[100:10_100]}
    (10200, {2}, {4})
    """
    syllables = pa.array(generator(seed, "vocabulary").permutation(_SYLLABLES).tolist())
    base = len(syllables)
    words, first, length = [], 0, 1
    while first < size:
        # Ranks first … first + base^length - 1 are the words of so many syllables, the last digit moving fastest.
        numbers = np.arange(min(base**length, size - first))
        digits = [syllables.take(pa.array(numbers // base**place % base)) for place in reversed(range(length))]
        words.append(pc.binary_join_element_wise(*digits, "") if length > 1 else digits[0])
        first, length = first + base**length, length + 1
    return pa.concat_arrays(words)


def read_lines(path: str | os.PathLike[str], *, rows_per_piece: int, pieces_per_batch: int) -> Feed:
    """Lines of text files, or the text column of Parquet or Arrow files.

    The text column is ``line``, or else the only column that is text. A file with another ending is taken for text.
    """
    known = Path(path).is_dir() or Path(path).suffix.lower() in SUFFIXES
    format: Format | None = None if known else "text"
    trace = Trace(path, format=format, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch)
    texts = [column.name for column in trace.schema if pa.types.is_string(column.type)]
    if "line" not in texts and len(texts) != 1:
        raise InputError(
            f"{path}: a text column named 'line' is wanted, or a single one of any name; there "
            + (f"are {', '.join(texts)}." if texts else f"is none among {', '.join(trace.schema.names)}.")
        )
    column = "line" if "line" in texts else texts[0]
    if trace.schema.names != [SEQ, column]:
        trace = replace(trace, columns=[column])
    return Files(trace=trace, schema=LINES, names=(("line", column),))
