"""What a validation found, as a page and as documents have it; and what the command refuses."""

from pathlib import Path

import pytest

from spillway.cli.main import main
from spillway.model.validation.comparing import Compared, as_row
from spillway.model.validation.predicting import Interval
from spillway.records.campaign import read_manifest
from spillway.records.reproduction import Reproduction
from spillway.report.pages import report_page
from spillway.report.reproductions import reproduction_charts
from spillway.report.validation_markdown import command, validation_markdown

INSIDE = Compared(
    way="checkpoint", measure="availability", measured=0.7, predicted=Interval(mean=0.75, low=0.6, high=0.9)
)
OUTSIDE = Compared(
    way="group",
    measure="availability",
    measured=0.5,
    predicted=Interval(mean=0.9, low=0.8, high=1.0),
    explanation="the model would say so if a failover took 4 times as long",
)
NEVER = Compared(way="group", measure="duplicates", measured=0.0, predicted=Interval(mean=0.0, low=0.0, high=0.0))


@pytest.fixture
def records(tmp_path: Path) -> Path:
    found = Reproduction(
        paper="validation",
        settings={"graph": "bargain", "horizon": 60.0, "runs": 1, "seconds": 300.0, "quick": True},
    )
    for one in (INSIDE, OUTSIDE, NEVER):
        found.add("compared", as_row(one))
    for way in ("checkpoint", "group"):
        row = {"way": way, "kills": 4, "recovery_s": 3.6, "failovers": 2, "failover_s": 1.2, "runs": 1}
        found.add("tried", row)
    factors = {"penalty": 0.1, "staleness": 0.5, "cap": 1.0}
    found.add("fitted", {"job": "Aggregator", "outage_s": 1.0, "settled_s": 2.5, **factors})
    found.write(tmp_path)
    return tmp_path


def test_inside_is_what_the_interval_contains() -> None:
    assert INSIDE.inside and NEVER.inside and not OUTSIDE.inside


def test_the_page(records: Path) -> None:
    page = report_page(records)
    assert "bargain: the model and reality" in page and "8 kills in 2 runs of 60 s" in page
    assert "the model would say so if a failover took 4 times as long" in page
    assert "Neither measured nor modelled in any way: tainted, lost on streams, duplicates, output." in page
    assert set(reproduction_charts(records, read_manifest(records))) == {"availability.svg"}


def test_documents(records: Path) -> None:
    manifest = read_manifest(records)
    assert command(manifest) == "model validate bargain --quick"
    lines = validation_markdown(records, manifest).splitlines()
    assert lines[0].startswith("`./run spillway model validate bargain --quick`: 300 s, 1 runs of 60 s in each way: ")
    assert lines[4] == "| checkpoint | availability | 0.700 | 0.600 to 0.900 | 0.750 | inside |"
    assert lines[5].endswith("| outside: the model would say so if a failover took 4 times as long |")
    assert len(lines) == 6  # what is zero is left out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bargains"], "There is no application 'bargains'"),
        (["bargain", "--horizon", "0"], "--horizon wants seconds above 0"),
        (["bargain", "--horizon", "2"], "--horizon wants ten batches of 0.5 s or more"),
        (["bargain", "--crash-every", "-1"], "--crash-every wants seconds above 0"),
        (["bargain", "--tolerance", "1"], "--tolerance is a share"),
        (["bargain", "--set", "symbol=3"], "has no option 'symbol'"),
        (["grep"], "keeps no state"),
        (["a.b:c", "--set", "x=1"], "--set is for options of an application"),
    ],
)
def test_what_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "validate", *words]) != 0
    assert said in " ".join(capsys.readouterr().err.split())
