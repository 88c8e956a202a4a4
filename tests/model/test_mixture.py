"""Operators protected each in a way of its own: what is kept for one is kept, what is sent to another is lost."""

import pytest
from tests.model.simulating import chain, found

from spillway.model import (
    BoundedState,
    CheckpointState,
    ExactState,
    Faults,
    FullReplication,
    KeptItems,
    NoProtection,
    Technique,
)
from spillway.model.protections import Mixture
from spillway.records.model import MEASURES
from spillway.san import ModelError

EVERY = ("source", "filter", "aggregate", "sink")
KEPT = ExactState(batch_s=0.5, catch_up=3.0)


def hurt(operator: str) -> Faults:
    return Faults(crash_once={operator: 20.0}, recovery_s=5.0)


BOUNDED = BoundedState(theta_tuples=100, catch_up=3.0)


@pytest.mark.parametrize(
    "technique", [KEPT, KeptItems(every_tuples=300, catch_up=3.0), NoProtection(), BOUNDED], ids=repr
)
@pytest.mark.parametrize("operator", EVERY)
def test_a_mixture_of_one_is_that_one(technique: Technique, operator: str) -> None:
    alike = Mixture(parts=dict.fromkeys(EVERY, technique))
    one, other = (found(chain(), each, hurt(operator), horizon_s=100.0) for each in (alike, technique))
    assert {name: one[name].mean for name in MEASURES} == {name: other[name].mean for name in MEASURES}


@pytest.mark.parametrize("skip", [True, False])
def test_only_what_is_sent_to_the_unprotected_is_lost(skip: bool) -> None:
    mixed = Mixture(parts={"filter": KEPT, "aggregate": CheckpointState(age_s=1.0)})
    kept = found(chain(), mixed, hurt("filter"), horizon_s=100.0, skip=skip)
    assert kept["lost"].mean == kept["tainted"].mean == 0
    assert kept["output"].mean == pytest.approx(10_000, abs=1)
    assert kept["delayed"].mean > 0
    lost = found(chain(), mixed, hurt("aggregate"), horizon_s=100.0, skip=skip)
    assert lost["lost"].mean == pytest.approx(500, abs=2)
    assert lost["output"].mean == pytest.approx(9_500, abs=2)
    assert lost["tainted"].mean > 0
    assert lost["delayed"].mean == 0


def test_the_other_way_round_too() -> None:
    mixed = Mixture(parts={"filter": NoProtection(), "aggregate": KEPT})
    lost = found(chain(), mixed, hurt("filter"), horizon_s=100.0)
    assert lost["lost"].mean == pytest.approx(500, abs=2)
    kept = found(chain(), mixed, hurt("aggregate"), horizon_s=100.0)
    assert kept["lost"].mean == kept["tainted"].mean == 0


def test_what_a_theta_leaves_is_within_its_bound_only_where_all_else_is_exact() -> None:
    kept, lossy = (
        found(chain(), Mixture(parts={"aggregate": BOUNDED, "filter": other}), hurt("aggregate"), horizon_s=100.0)
        for other in (KEPT, NoProtection())
    )
    assert kept["within_bound"].mean == lossy["tainted"].mean > 0
    assert kept["tainted"].mean == kept["lost"].mean == lossy["within_bound"].mean == 0


def test_skipping_changes_no_law_of_a_mixture() -> None:
    mixed = Mixture(parts={"filter": KEPT, "aggregate": NoProtection()})
    faults = Faults(crash_rate=0.02, recovery_s=2.0, spared=("source", "sink"))
    flow = chain(rate=20.0, selectivity=0.5, state_tuples=20)
    skipped, whole = (found(flow, mixed, faults, horizon_s=400.0, count=200, skip=skip) for skip in (True, False))
    for name in ("availability", "lost", "delayed", "output"):
        apart = abs(skipped[name].mean - whole[name].mean)
        assert apart <= 2 * (skipped[name].half_width + whole[name].half_width), name


def test_copies_cannot_be_mixed() -> None:
    with pytest.raises(ModelError, match="Operator 'filter': replication cannot be modelled beside other protections"):
        Mixture(parts={"filter": FullReplication()}).layout(chain())
