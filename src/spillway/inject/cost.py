"""What a campaign would cost if every trial and golden run went from the first tuple to the last."""

import time

from spillway.graph.sinks import Discard
from spillway.inject.campaign import Campaign
from spillway.inject.full_run import full_run
from spillway.inject.rewriting import redraw

_BATCHES_MEASURED = 4


def full_run_s(campaign: Campaign) -> float:
    """What one run from start to end takes of one core, from a few batches of one, the first left out."""
    graph = redraw(campaign.input(), sink=lambda name, sink: Discard())
    with full_run(graph) as run:
        run.step()
        first, started_s = run.batch, time.process_time()
        while run.batch - first < _BATCHES_MEASURED and run.step():
            pass
        measured = run.batch - first
        return (time.process_time() - started_s) / max(measured, 1) * run.batches
