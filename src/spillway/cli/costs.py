"""``spillway profile --costs``: what protections cost on this machine, measured once for all plans made here."""

from dataclasses import asdict
from pathlib import Path

from spillway.cli.output import PEOPLE, print_json, print_table
from spillway.model.terms import Circumstances, Drift, Measured, proposals, terms_of
from spillway.plan.kept_machine import costs_file, keep_for_machine, this_machine
from spillway.plan.machine_costs import MachineCosts, measure_costs
from spillway.plan.planning import RESTART_S, TAKEOVER_S, described
from spillway.records.figures import size

EXAMPLE = Measured(
    operator="an example",
    stateful=True,
    cores=0.1,
    tuples_per_s=10_000.0,
    bytes_per_s=500_000.0,
    state_bytes=1e7,
    changed_bytes_per_s=2e6,
    drifts=(Drift(age_s=2.0, least=2_000.0, most=2_000.0), Drift(age_s=10.0, least=10_000.0, most=10_000.0)),
    threshold=0.5,
)
"""An operator to show costs by: it keeps 10 MB, changes a fifth of that and gets 10,000 tuples of 50 bytes a second."""


def costs_of_machine(*, json: bool) -> int:
    """Measure in the current folder, keep what was found, and show what it makes of protections."""
    path = costs_file()
    costs = measure_costs(Path.cwd())
    keep_for_machine(costs, path)
    protections = _protections(costs)
    if json:
        told = {"file": str(path), "machine": this_machine(), "costs": asdict(costs), "example": asdict(EXAMPLE)}
        print_json({**told, "protections": protections})
        return 0
    print_table(
        f"a durable file {costs.write_core_s * 1e6:,.0f} µs of a core and {costs.write_s * 1e3:,.1f} ms, a megabyte "
        f"{costs.write_core_s_per_byte * 1e9:,.2f} ms of a core, a process {size(costs.process_bytes)}",
        ["protection", "cores", "memory", "written", "latency"],
        [
            [
                name,
                f"{of['cores']:.2g}",
                size(of["memory_bytes"]),
                f"{size(of['written_bytes_per_s'])}/s",
                f"{of['latency_s'] * 1e3:,.1f} ms",
            ]
            for name, of in protections.items()
        ],
        words=("protection",),
    )
    PEOPLE.print(
        "By the terms of protections, of an operator that keeps 10 MB, changes 2 MB and gets 10,000 tuples of 50 bytes "
        f"a second. Measured in this folder and kept in {path}, which spillway plan uses.",
        markup=False,
        soft_wrap=True,
    )
    return 0


def _protections(costs: MachineCosts) -> dict[str, dict[str, float]]:
    around = Circumstances(restart_s=RESTART_S, takeover_s=TAKEOVER_S, batch_s=1.0, **asdict(costs))
    return {described(each): asdict(terms_of(each, EXAMPLE, around).cost) for each in proposals(EXAMPLE)}
