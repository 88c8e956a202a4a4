"""A campaign as data: which faults are tried where, how often, and how outputs are scored (seed 000, section 6.2).

Declared in Python, or in TOML::

    name = "bargain"

    [input]                      # an application and its generated input, or path = "ticks.parquet"
    app = "bargain"
    tuples = 5_000_000
    seed = 1

    [fault]
    model = "outage"             # or duplication, reordering, corruption, state, state_loss, set_back
    offsets = [500_000, 1_500_000]        # in tuples of the source
    outages_s = [0.5, 16.0]
    targets = ["TradeFilter"]    # left out: chosen by the rules of placement
    rates = { average = 500.0, peak = 2200.0 }     # left out: measured from the column "time"

    [repeat]
    trials = 5
    golden = 300
    seed = 1

    [score]
    sink = "Sink"
    function = "sum(gain)"       # sum, mean, count, or "module:function"
    section_tuples = 5_000

    [[protect]]                  # try again as if these operators were protected
    name = "replicated"
    operators = ["TradeFilter", "Aggregator", "VWAP"]
    how = "replicated"           # restarted, checkpointed or replicated
    outage_s = 2.0
"""

import importlib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from spillway.apps import APPS
from spillway.errors import InputError
from spillway.graph.feeds import Feed
from spillway.graph.graph import Graph
from spillway.graph.protections import Nothing
from spillway.inject.faults.fault import At, Fault
from spillway.inject.faults.outage import Outage
from spillway.inject.models import fault_model
from spillway.records.showing import small_table
from spillway.score import Count, Mean, OutputScore, Sum

BATCH_TUPLES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AppInput:
    """An application on generated input, or on files: makes its graph, in any process."""

    app: str
    tuples: int = 0
    seed: int = 1
    path: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    tuples_per_batch: int = BATCH_TUPLES

    def __call__(self) -> Graph:
        if self.app not in APPS:
            raise InputError(f"There is no application {self.app!r}; there are {', '.join(sorted(APPS))}.")
        app = APPS[self.app]
        made_by = app.reader_options if self.path else app.generator_options
        made = app.chosen(made_by, self.options)
        built = {name: value for name, value in self.options.items() if name not in made}
        built |= app.chosen(app.options, self.options)
        feed: Feed
        if self.path:
            feed = app.reader(self.path, tuples_per_batch=self.tuples_per_batch, **made)
        else:
            feed = app.generator(seed=self.seed, tuples=self.tuples, tuples_per_batch=self.tuples_per_batch, **made)
        return app.build(feed, protect=Nothing(), **built)

    def describe(self) -> dict[str, Any]:
        what: dict[str, Any] = {"path": self.path} if self.path else {"tuples": self.tuples, "seed": self.seed}
        return {"app": self.app, **what, "options": dict(self.options)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """A protection assumed on some operators, and the outage it leaves.

    ``restarted``: a fault of one of them costs an outage of ``outage_s``. ``checkpointed``: the state is then also
    stale by ``stale_s``; those tuples count as lost, which is the most that staleness can cost. ``replicated``: the
    operators are a group with a second copy that has seen all of the input and takes over in ``outage_s``; only what
    the group puts out in that time is lost.
    """

    name: str
    operators: tuple[str, ...]
    how: Literal["restarted", "checkpointed", "replicated"]
    outage_s: float
    stale_s: float = 0.0

    def __post_init__(self) -> None:
        if self.how not in ("restarted", "checkpointed", "replicated"):
            raise InputError(f"Protection {self.name!r}: restarted, checkpointed or replicated; got {self.how!r}.")
        if not (self.name and self.operators and self.outage_s > 0 and self.stale_s >= 0):
            raise InputError(f"Protection {self.name!r} wants a name, operators, and an outage above zero.")

    @property
    def lost_s(self) -> float:
        return self.outage_s + (self.stale_s if self.how == "checkpointed" else 0.0)

    def describe(self) -> str:
        words = {
            "restarted": f"restarted in {self.outage_s:g} s",
            "checkpointed": f"restarted in {self.outage_s:g} s from a checkpoint at most {self.stale_s:g} s old",
            "replicated": f"replicated, failover in {self.outage_s:g} s",
        }
        return words[self.how]


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What to try. ``input`` makes the graph with its input; it must be importable by other processes."""

    name: str
    input: Callable[[], Graph]
    sink: str
    score: OutputScore
    offsets: tuple[int, ...]
    outages_s: tuple[float, ...]
    targets: tuple[str, ...] | None = None  # None: as the rules of placement choose
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # targets that are several operators
    rates: Mapping[str, float] | None = None  # None: measured
    model: str = Outage.model
    model_options: Mapping[str, Any] = field(default_factory=dict)
    repetitions: int = 5
    golden_repetitions: int = 300
    section_tuples: int = 5000
    threshold: float = 0.03
    percentile: float = 0.9
    alpha: float = 0.05
    seed: int = 1
    delay_max: int = 50  # of a stream, where streams meet, in tuples of the source
    settled_every: int = 10_000  # tuples of the source after which streams have caught up
    assumed: tuple[Assumed, ...] = ()
    local_only: bool = False  # whether local scores are enough, where quality cannot be told in proportion

    def __post_init__(self) -> None:
        if self.golden_repetitions < self.repetitions:
            raise InputError(
                f"Campaign {self.name!r}: trial n rejoins golden run n, so there must be at least as many golden runs "
                f"({self.golden_repetitions}) as repetitions ({self.repetitions})."
            )
        for what, given in (("offset", self.offsets), ("outage", self.outages_s)):
            if not given or min(given) < 0 or len(set(given)) != len(given):
                raise InputError(f"Campaign {self.name!r} wants at least one {what}, none below zero, each once.")
        if min(self.outages_s) <= 0 or self.repetitions < 1 or self.section_tuples < 1 or self.delay_max < 1:
            raise InputError(
                f"Campaign {self.name!r}: outages, repetitions, section_tuples and delay_max must be above zero."
            )
        self.fault(targets=("x",), offset=0, length=1)  # options that make no sense are refused here

    def fault(self, *, targets: tuple[str, ...], offset: int, length: int, at: At = "input") -> Fault:
        try:
            return fault_model(self.model)(
                targets=targets, offset=offset, length=length, at=at, seed=self.seed, **self.model_options
            )
        except InputError as error:
            raise InputError(f"Campaign {self.name!r}: {error}") from error
        except TypeError as error:
            raise InputError(f"Campaign {self.name!r}: fault model {self.model!r} does not fit ({error}).") from error

    def _repr_html_(self) -> str:
        """In a notebook: what is asked for."""
        trials = f"{self.repetitions:,} of each, against {self.golden_repetitions:,} golden runs"
        rows = [
            ("fault", self.model),
            ("operators", "chosen by the rules of placement" if self.targets is None else ", ".join(self.targets)),
            ("offsets, in tuples", ", ".join(f"{offset:,}" for offset in self.offsets)),
            ("outages", ", ".join(f"{outage:g} s" for outage in self.outages_s)),
            ("trials", trials),
            ("score", f"{self.score} of {self.sink}"),
            *((f"assumed: {one.name}", f"{', '.join(one.operators)}: {one.describe()}") for one in self.assumed),
        ]
        return small_table(f"Campaign {self.name}", ("what", "asked for"), rows)

    def operators_of(self, target: str) -> tuple[str, ...]:
        return self.groups.get(target, (target,))


def read_campaign(path: Path) -> Campaign:
    """A campaign from a TOML file; anything unknown in it is refused by name."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"Campaign {path} cannot be read ({error}).") from error
    name = _taken(path, given, "name", str, default=path.stem)
    source, fault, repeat = (_taken(path, given, part, dict) for part in ("input", "fault", "repeat"))
    scoring = _taken(path, given, "score", dict)
    protect = _taken(path, given, "protect", list, default=[])
    _none_left(path, given, "")
    rates = fault.pop("rates", None)
    targets = fault.pop("targets", None)
    try:
        campaign = Campaign(
            name=name,
            input=AppInput(**source),
            sink=_taken(path, scoring, "sink", str),
            score=parse_score(_taken(path, scoring, "function", str)),
            offsets=tuple(_taken(path, fault, "offsets", list)),
            outages_s=tuple(float(outage) for outage in _taken(path, fault, "outages_s", list)),
            targets=None if targets is None else tuple(targets),
            groups={group: tuple(names) for group, names in fault.pop("groups", {}).items()},
            rates=None if rates is None else {rate: float(value) for rate, value in rates.items()},
            model=_taken(path, fault, "model", str, default=Outage.model),
            model_options=fault.pop("options", {}),
            repetitions=_taken(path, repeat, "trials", int),
            golden_repetitions=_taken(path, repeat, "golden", int),
            seed=_taken(path, repeat, "seed", int, default=1),
            delay_max=_taken(path, repeat, "delay_max", int, default=50),
            assumed=tuple(Assumed(**{**one, "operators": tuple(one.get("operators", ()))}) for one in protect),
            **scoring,
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"Campaign {path}: {error}.") from error
    _none_left(path, fault, "fault.")
    _none_left(path, repeat, "repeat.")
    return campaign


def parse_score(text: str) -> OutputScore:
    """An output score from its name: ``sum(gain)``, ``mean(error)``, ``count()``, or ``module:function``.

    >>> parse_score("sum(gain)")
    Sum(column='gain')
    """
    found = re.fullmatch(r"(sum|mean|count)\((\w*)\)", text)
    if found and (found[1] == "count") == (not found[2]):
        return Count() if found[1] == "count" else Sum(found[2]) if found[1] == "sum" else Mean(found[2])
    module, separator, function = text.partition(":")
    if not separator:
        raise InputError(f"Score {text!r}: sum(column), mean(column), count() or module:function is wanted.")
    try:
        score = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(f"Score {text!r} cannot be found ({error}).") from error
    if not callable(score):
        raise InputError(f"Score {text!r} is not a function.")
    return score  # type: ignore[no-any-return]


def _taken(path: Path, given: dict[str, Any], name: str, kind: type, *, default: Any = None) -> Any:
    value = given.pop(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"Campaign {path}: {name!r} must be {kind.__name__}; got {value!r}.")
    return value


def _none_left(path: Path, given: Mapping[str, Any], where: str) -> None:
    if given:
        raise InputError(f"Campaign {path}: {where}{next(iter(given))} means nothing here.")
