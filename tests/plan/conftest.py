"""What plans are tested with: costs that are given, and none that somebody measured on this machine."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from spillway.plan.machine_costs import MachineCosts

COSTS = MachineCosts(write_core_s=3e-4, write_core_s_per_byte=3e-10, write_s=1e-3, process_bytes=1.5e8)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for evidence in which costs are given, so that plans do not depend on what the machine does just now."""
    folder = tmp_path_factory.mktemp("plan") / "evidence"
    folder.mkdir()
    (folder / "costs.json").write_text(json.dumps(asdict(COSTS)))
    return folder


@pytest.fixture(autouse=True, scope="session")
def _no_costs_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
