"""The public names: where they are, that each says something of itself, and that asking for them stays quick."""

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spillway as sw
from spillway.operators.operator import Operator

ROOT = Path(__file__).parents[1]
MODULES = (
    "spillway",
    "spillway.operators",
    "spillway.operators.hitters",
    "spillway.operators.regression",
    "spillway.operators.ripple_join",
    "spillway.inject",
    "spillway.score",
    "spillway.model",
    "spillway.san",
    "spillway.receiver",
    "spillway.records",
)


def public(module: str) -> Iterator[tuple[str, Any]]:
    """The names that a module offers, without the modules in it."""
    found = importlib.import_module(module)
    for name in found.__all__:
        value = getattr(found, name)
        if not inspect.ismodule(value):
            yield name, value


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference_once(module: str) -> None:
    reference = (ROOT / "docs" / "reference.md").read_text()
    spoken = "sw" + module.removeprefix("spillway")
    missing = [name for name, _ in public(module) if reference.count(f"\n### `{spoken}.{name}`\n") != 1]
    assert not missing, "give them a place in docs/make_reference.py and run it"


def test_every_module_on_offer_is_in_the_reference() -> None:
    on_offer = {f"spillway.{name}" for name in sw.__all__ if inspect.ismodule(getattr(sw, name))}
    assert "spillway.inject" in on_offer
    assert on_offer <= set(MODULES), "a module that the top offers has a chapter, and is looked at here"


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_says_what_it_is(module: str) -> None:
    silent = [
        name
        for name, value in public(module)
        # What a dataclass makes up for a class without a docstring is its signature.
        if inspect.isclass(value) or inspect.isfunction(value)
        if not (value.__doc__ or "").strip() or (value.__doc__ or "").startswith(f"{name}(")
    ]
    assert not silent


def test_the_top_has_one_operator() -> None:
    operators = [name for name, value in public("spillway") if inspect.isclass(value) and issubclass(value, Operator)]
    assert operators == ["Operator"]


def test_names_stand_in_one_place() -> None:
    homes: dict[int, list[str]] = {}
    for module in ("spillway", *(each for each in MODULES if each.startswith("spillway.operators"))):
        for name, value in public(module):
            homes.setdefault(id(value), []).append(f"{module}.{name}")
    assert [names for names in homes.values() if len(names) > 1] == []


def test_importing_it_loads_neither_spark_nor_models_nor_what_few_need() -> None:
    asked = "import sys, spillway; print(*sorted(name for name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    unwanted = {
        "pyspark",
        "pandas",
        "scipy.stats",
        "fsspec",
        "asyncio",
        "pyarrow._flight",
        "pyarrow.parquet",
        "ssl",
        "spillway.spark",
        "spillway.inject",
        "spillway.model",
        "spillway.receiver",
        "spillway.san",
    }
    assert not loaded & unwanted
    assert {"spillway.graph", "spillway.operators.hitters"} <= loaded


def test_modules_come_when_they_are_asked_for() -> None:
    assert sw.inject.Campaign is importlib.import_module("spillway.inject").Campaign
    assert sw.Sender is importlib.import_module("spillway.receiver").Sender
    assert sw.san.Net and sw.model.flow_of and sw.score.evaluate
    with pytest.raises(AttributeError, match="module 'spillway' has no attribute 'Count'"):
        sw.Count  # type: ignore[attr-defined]  # noqa: B018
