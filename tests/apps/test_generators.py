"""Generated input: the same for a seed wherever it is made, piece by piece, and of the shape it promises."""

import hashlib
import pickle
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spillway.apps import APPS
from spillway.apps.making import Pieces, heavy_tailed
from spillway.apps.packets import PACKET_BYTES_MAX, addresses
from spillway.apps.text import vocabulary
from spillway.errors import GraphError
from spillway.graph import Feed, Generator
from spillway.seeds import generator


def feed(app: str, **options: Any) -> Generator:
    return APPS[app].generator(**{"seed": 7, "tuples": 2_500, "tuples_per_batch": 1_000, **options})


FEEDS = {app: feed(app) for app in APPS}


def everything(feed: Feed) -> pa.Table:
    return pa.Table.from_batches([feed.read(piece) for piece in range(feed.pieces)], feed.schema)


@pytest.mark.parametrize("app", APPS)
class TestEveryApp:
    def test_the_same_seed_makes_the_same_tuples(self, app: str) -> None:
        assert everything(feed(app)).equals(everything(feed(app)))
        assert not everything(feed(app)).equals(everything(feed(app, seed=8)))

    def test_a_piece_depends_on_its_number_alone(self, app: str) -> None:
        alone = feed(app).read(3)
        both = feed(app)
        both.read(1)
        assert both.read(3).equals(alone)
        assert not both.read(2).drop_columns("seq").equals(alone.drop_columns("seq"))

    def test_a_feed_is_small_to_send(self, app: str) -> None:
        sent = pickle.dumps(feed(app))
        assert len(sent) < 1_000
        assert pickle.loads(sent).read(1).equals(feed(app).read(1))

    def test_seq_ascends_by_one_through_all_pieces(self, app: str) -> None:
        made = feed(app)
        assert everything(made)["seq"].to_pylist() == list(range(2_500))
        assert (made.pieces, made.pieces_per_batch) == (5, 2)

    @pytest.mark.parametrize(
        ("tuples", "tuples_per_batch", "pieces_per_batch", "sizes"),
        [
            (0, 10, 2, []),
            (1, 10, 2, [1]),
            (20, 10, 2, [5, 5, 5, 5]),
            (21, 10, 2, [5, 5, 5, 5, 1]),
            (7, 3, 2, [2, 2, 2, 1]),  # a batch of 3 in 2 pieces becomes one of 4
            (3, 10, 1, [3]),
            (4, 1, 4, [1, 1, 1, 1]),
        ],
    )
    def test_pieces_have_the_size_asked_for(
        self, app: str, tuples: int, tuples_per_batch: int, pieces_per_batch: int, sizes: list[int]
    ) -> None:
        made = feed(app, tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
        assert [made.read(piece).num_rows for piece in range(made.pieces)] == sizes

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"seed": -1}, "App '{app}': seed must be a whole number, 0 or more; got -1."),
            ({"tuples": 1.5}, "App '{app}': tuples must be a whole number, 0 or more; got 1.5."),
            ({"tuples_per_batch": 0}, "App '{app}': tuples_per_batch must be a whole number, 1 or more; got 0."),
            ({"pieces_per_batch": True}, "App '{app}': pieces_per_batch must be a whole number, 1 or more; got True."),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, app: str, options: dict[str, Any], message: str) -> None:
        with pytest.raises(GraphError) as refused:
            feed(app, **options)
        assert str(refused.value) == message.format(app=app)

    def test_an_option_of_another_type_is_refused(self, app: str) -> None:
        option = next(option for option in APPS[app].generator_options if isinstance(option.default, float))
        with pytest.raises(GraphError, match=f"Option '{option.name}' must be a number.*; got '1'"):
            feed(app, **{option.name: "1"})


def test_another_process_makes_the_same_tuples() -> None:
    # In another order, too: what a process has at hand from an earlier piece must not matter.
    program = (
        "import hashlib; from spillway.apps import APPS\n"
        "for name, app in APPS.items():\n"
        "    feed = app.generator(seed=7, tuples=2_500, tuples_per_batch=1_000)\n"
        "    pieces = [repr(feed.read(piece).to_pydict()) for piece in reversed(range(feed.pieces))]\n"
        "    print(name, hashlib.sha256(''.join(reversed(pieces)).encode()).hexdigest())\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    here = {name: [repr(made.read(piece).to_pydict()) for piece in range(made.pieces)] for name, made in FEEDS.items()}
    digests = {name: hashlib.sha256("".join(pieces).encode()).hexdigest() for name, pieces in here.items()}
    assert said == "".join(f"{name} {digest}\n" for name, digest in digests.items())


class TestText:
    def test_words_are_different_and_pronounceable(self) -> None:
        words = vocabulary(3, 30_000).to_pylist()
        assert len(set(words)) == 30_000
        assert set("".join(words[:100])) <= set("abcdefghijklmnopqrstuvwxyz")
        assert all(len(word) == 2 for word in words[:100])
        assert all(len(word) == 4 for word in words[100:10_100])
        assert all(len(word) == 6 for word in words[10_100:])
        assert "love" in words[100:10_100]

    def test_a_smaller_vocabulary_is_the_beginning_of_a_larger(self) -> None:
        assert vocabulary(3, 150).equals(vocabulary(3, 20_000).slice(0, 150))
        assert len(vocabulary(3, 1)) == 1

    def test_seeds_speak_different_languages(self) -> None:
        assert vocabulary(3, 100).to_pylist() != vocabulary(4, 100).to_pylist()

    @pytest.mark.parametrize("words_per_line", [1, 2, 10])
    def test_a_line_has_so_many_words(self, words_per_line: int) -> None:
        lines = everything(feed("wordcount", words_per_line=words_per_line))["line"].to_pylist()
        assert {len(line.split(" ")) for line in lines} == {words_per_line}

    def test_frequency_falls_with_rank(self) -> None:
        words = everything(feed("wordcount", tuples=50_000, words_per_line=1, vocabulary=1_000))["line"].to_pylist()
        counts = Counter(words)
        by_rank = [counts[word] for word in vocabulary(7, 1_000).to_pylist()]
        # Zipf's law: twice the rank, half the count.
        assert 1.6 < sum(by_rank[10:20]) / sum(by_rank[20:40]) * 2 < 2.4
        assert sum(by_rank[:10]) > sum(by_rank[500:])

    def test_the_default_pattern_is_found(self) -> None:
        lines = everything(feed("grep", tuples=50_000, tuples_per_batch=50_000))["line"].to_pylist()
        assert 0 < sum("love" in line for line in lines) < 5_000


class TestPackets:
    def test_flows_are_pairs_of_their_own(self) -> None:
        sources, destinations = addresses(5, 100_000)
        assert len(set(zip(sources.to_pylist(), destinations.to_pylist(), strict=True))) == 100_000
        assert all(address.count(".") == 3 for address in [*sources.to_pylist()[:100], *destinations.to_pylist()[:100]])

    def test_sizes_are_those_of_packets(self) -> None:
        sizes = everything(feed("flows", tuples=20_000, tuples_per_batch=20_000))["bytes"].to_numpy()
        assert (sizes.min(), sizes.max()) == (40, PACKET_BYTES_MAX)
        assert abs(sizes.mean() - 627) < 5 * sizes.std() / np.sqrt(len(sizes))

    @pytest.mark.parametrize(("heavy", "share"), [(1, 0.5), (5, 0.9), (3, 0.0), (0, 0.5)])
    def test_the_heavy_have_their_share(self, heavy: int, share: float) -> None:
        packets = everything(feed("flows", tuples=20_000, flows=2_000, heavy=heavy, heavy_share=share, exponent=0.0))
        pairs = Counter(zip(packets["src"].to_pylist(), packets["dst"].to_pylist(), strict=True))
        sources, destinations = (column.to_pylist() for column in addresses(7, 2_000))
        counts = np.array([pairs[pair] for pair in zip(sources, destinations, strict=True)])
        assert counts.sum() == 20_000
        expected = share * 20_000 if heavy else 0.0
        assert abs(counts[:heavy].sum() - expected) <= 5 * np.sqrt(20_000 * 0.25)
        if expected:
            assert counts[:heavy].min() > 5 * counts[heavy:].max()

    @pytest.mark.parametrize("heavy", [10, 11])
    def test_not_all_can_be_heavy(self, heavy: int) -> None:
        with pytest.raises(GraphError) as refused:
            feed("flows", flows=10, heavy=heavy)
        assert str(refused.value) == f"Packets: of 10 flows at most 9 can be heavy; got {heavy}."


class TestHeavyTail:
    @pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0 - 1e-12, 1.0, 1.0 + 1e-12, 1.5, 3.0])
    @pytest.mark.parametrize("ranks", [1, 2, 1000])
    def test_ranks_follow_their_density(self, exponent: float, ranks: int) -> None:
        count = 40_000
        sampled = heavy_tailed(generator(1, "tail"), count, ranks=ranks, exponent=exponent)
        assert sampled.min() >= 0 and sampled.max() < ranks
        edges = np.arange(1, ranks + 2, dtype=float)
        mass = np.log(edges) if abs(exponent - 1) < 1e-6 else edges ** (1 - exponent) / (1 - exponent)
        share = np.diff(mass) / (mass[-1] - mass[0])
        found = np.bincount(sampled, minlength=ranks) / count
        assert np.abs(found - share).max() < 5 * np.sqrt(0.25 / count)

    def test_neighbours_of_one_are_like_one(self) -> None:
        one, near = (heavy_tailed(generator(1, "x"), 1_000, ranks=10**6, exponent=e) for e in (1.0, 1.0 + 1e-8))
        assert (one == near).mean() > 0.99


def test_pieces_never_overlap() -> None:
    cut = Pieces.of(tuples=1_003, tuples_per_batch=100, pieces_per_batch=3)
    seqs = [seq for piece in range(cut.count) for seq in cut.seqs(piece).to_pylist()]
    assert seqs == list(range(1_003))
