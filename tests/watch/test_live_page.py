"""The live page in a real browser: it takes the token from its address, shows the run, and goes on with its records."""

import re
import subprocess
from html import unescape
from pathlib import Path

import pytest
from tests.records.progressed import progress
from tests.report.browser import COMMAND, found_browser
from tests.watch.serving import serving

from spillway.records.batches import BatchDone
from spillway.records.rundir import RunDirectory

NAME = "<img src=x onerror=document.title='struck'>"


def shown(address: str, profile: Path) -> str:
    """The document after ten seconds of the browser's own time."""
    browser = found_browser()
    if browser is None:
        pytest.skip("no browser runs here; on Debian: apt-get install chromium")
    command = [browser, *COMMAND, f"--user-data-dir={profile}", "--virtual-time-budget=10000", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("live")
    directory = RunDirectory(folder / "run", graph=NAME)
    directory.add([progress(batch=batch, threshold=4.0, divergence=1.0) for batch in range(3)])
    directory.add_batches([BatchDone(batch=batch, tuples=5, time_s=1e9 + batch) for batch in range(3)])
    with serving(folder / "run") as server:
        found = {
            "right": shown(server.address, folder / "profile"),
            "wrong": shown(f"{server.address}x", folder / "other"),
        }
    directory.close("stopped")
    return found


def test_it_shows_the_run(pages: dict[str, str]) -> None:
    page = pages["right"]
    assert '<p class="state good" role="status">running</p>' in page
    assert re.findall(r"<h2>(.*?)</h2>", page)[:2] == ["Is it keeping up?", "Is it safe?"]
    assert 'role="alert" hidden' in page
    title = re.search(r"<title>(.*?)</title>", page)
    assert title is not None and unescape(title[1]) == f"running · Run of {NAME}"


def test_without_the_token_it_says_what_it_wants(pages: dict[str, str]) -> None:
    assert "This page wants the token" in pages["wrong"]
    assert "Is it safe?" not in pages["wrong"]
