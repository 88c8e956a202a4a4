"""What the command line understands: every command and bench is there, and protections are read from words."""

import argparse
import re
import shlex
from datetime import timedelta
from pathlib import Path

import pytest

from spillway.cli.bench import BENCHES
from spillway.cli.main import COMMANDS, _parser, main
from spillway.cli.model import MODELS
from spillway.cli.protection import parse_protection
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection, UpstreamBackup

ROOT = Path(__file__).parents[2]

EVERY_COMMAND = [
    *([name] for name in COMMANDS),
    *(["bench", name] for name in [*BENCHES, "show"]),
    *(["model", name] for name in MODELS),
]
# One spelling of what several commands take. On the right, how some of them once spelled it.
SPELLED = {
    "--tuples-per-batch": ("--rows-per-batch", "--rows", "--batch-size"),
    "--master": ("--spark",),
    "--directory": ("--out", "--dir", "--output-directory"),
}


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=" ".join)
def test_every_command_explains_itself_in_the_same_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert "--json" in options
    for spelled, otherwise in SPELLED.items():
        assert not options & {*otherwise}, f"it is {spelled} elsewhere"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["run"], "--tuples-per-batch"),
        (["profile"], "--tuples-per-batch"),
        (["model", "compare"], "--tuples-per-batch"),
        (["bench", "wordcount"], "--tuples-per-batch"),
        (["run"], "--master"),
        (["inject"], "--master"),
        (["model", "bargain"], "--master"),
        (["bench", "state"], "--directory"),
        (["reproduce"], "--directory"),
    ],
    ids=lambda part: part if isinstance(part, str) else " ".join(part),
)
def test_what_several_commands_take_is_there(words: list[str], option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert option in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["run", "wordcount", "--seed", "-1"],
        ["run", "wordcount", "--tuples", "0"],
        ["run", "wordcount", "--tuples-per-batch", "1.5"],
        ["profile", "wordcount", "--input-seed", "-1"],
        ["demo", "--seed", "-1"],
        ["reproduce", "af", "--seed", "-1"],
    ],
    ids=" ".join,
)
def test_numbers_that_make_no_sense_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert f"argument {words[-2]}: '{words[-1]}' is " in capsys.readouterr().err


def test_an_unknown_command_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["frobnicate"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert all(re.search(rf"\b{name}\b", told) for name in COMMANDS)


def documented() -> list[str]:
    """The commands of our documents: lines of shell, and what stands between back quotes with an option."""
    found = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text().replace("\\\n", " ")  # a command may go on in the next line
        found += re.findall(r"^(?:\./run )?spillway ([^#\n]+)", text, re.MULTILINE)
        found += [" ".join(words.split()) for words in re.findall(r"`(?:\./run )?spillway\s([^`]+ --[^`…]+)`", text)]
    return sorted({command.strip() for command in found})


@pytest.mark.parametrize("command", documented())
def test_what_documents_tell_people_to_type_is_understood(command: str) -> None:
    words = shlex.split(command.replace("APP", "wordcount"))
    if "--help" not in words:
        _parser(words).parse_args(["1" if word in ("N", "BATCH") else word for word in words])


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
