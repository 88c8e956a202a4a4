"""What the command line understands: every command and bench is there, and protections are read from words."""

import argparse
import re
from datetime import timedelta

import pytest

from spillway.cli.bench import BENCHES
from spillway.cli.main import COMMANDS, main
from spillway.cli.protection import parse_protection
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection, UpstreamBackup


@pytest.mark.parametrize("words", [[name] for name in COMMANDS] + [["bench", name] for name in BENCHES], ids=" ".join)
def test_every_command_explains_itself(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_an_unknown_command_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["frobnicate"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert all(re.search(rf"\b{name}\b", told) for name in COMMANDS)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("nothing", Nothing()),
        ("exact", Exact()),
        ("exact:items", Exact(items=True)),
        ("approximate:theta=1e5", Approximate(theta=1e5)),
        ("approximate:theta=10,items=1e3,unacked=50", Approximate(theta=10, items=1e3, unacked=50)),
        ("upstream:every=1e4", UpstreamBackup(every=10_000)),
        ("checkpoint:every=500", Checkpoint(every=500)),
        ("checkpoint:every=2.5s", Checkpoint(every=timedelta(seconds=2.5))),
    ],
)
def test_protections_are_read_from_words(text: str, meant: Protection) -> None:
    assert parse_protection(text) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is none of nothing, exact"),
        ("perfect", "'perfect' is none of nothing, exact"),
        ("nothing:much", "there is no setting 'much' here"),
        ("exact:state", "there is no setting 'state' here"),
        ("approximate", "is none of nothing, exact"),
        ("approximate:theta=much", "could not convert"),
        ("approximate:theta=-1", "theta is the largest divergence allowed"),
        ("approximate:theta=1,items=nan", "items is the most items"),
        ("upstream:every=0", "every must be a whole number, 1 or more"),
        ("checkpoint:every=0s", "every must be above zero"),
        ("checkpoint:each=5", "there is no setting 'each' here"),
    ],
)
def test_words_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=re.escape(said)):
        parse_protection(text)
