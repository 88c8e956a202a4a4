"""Where the shards of a run were: its hosts, which shard was where in each batch, every move with its reason."""

from collections import Counter
from collections.abc import Iterable, Sequence

from spillway.records.columns import Progress, Stretch
from spillway.records.figures import count, duration, size, times
from spillway.records.placing import Moved, Waited, summarise_hosts
from spillway.records.progress import ShardProgress
from spillway.report.bands import PARTS_MAX, ROWS_MAX, Band, Sign, band_chart
from spillway.report.charts import SERIES_MAX
from spillway.report.page import ROWS_MAX as TABLE_ROWS_MAX
from spillway.report.page import Cell, Section, Value, table

_TOLD_MAX = 500  # moves, and waits, told one by one
_OTHERS = "other hosts"

Shard = tuple[str, int]


def hosts_part(progress: Progress, moves: Sequence[Moved], waits: Sequence[Waited]) -> list[Section]:
    """Sections of a run's page; none of a run on one machine."""
    stretches = progress.stretches()
    if not moves and not waits and not stretches:
        return []
    recovered = [row for row in progress.rows(progress.of("recovered").astype(bool)) if row.host]
    return [
        _hosts(stretches, moves, waits),
        *_where(stretches, recovered, moves),
        *_moves(moves),
        *_waits(waits),
    ]


def _hosts(stretches: Sequence[Stretch], moves: Sequence[Moved], waits: Sequence[Waited]) -> Section:
    summaries = summarise_hosts(stretches, moves, waits)
    cells: list[list[Value]] = [
        [
            one.host,
            one.shards,
            Cell(count(one.tuples), sort=one.tuples),
            Cell(size(one.state_bytes), sort=one.state_bytes),
            one.moved_to,
            one.moved_from,
            one.recovered,
            one.waits,
            Cell(f"{one.waited_s:,.1f}", sort=one.waited_s),
        ]
        for one in summaries[:TABLE_ROWS_MAX]
    ]
    columns = [
        "Host",
        "Shards",
        "Tuples",
        "State",
        "Moved to",
        "Moved from",
        "Recovered",
        "Waits",
        "Waited (s)",
    ]
    more = f" The first {TABLE_ROWS_MAX:,} are told here." if len(summaries) > TABLE_ROWS_MAX else ""
    text = (
        f"A shard's memory is on one host, and every batch of the shard runs there until it moves. "
        f"Shards, and their state, are those there at the end.{more}"
    )
    return Section("Hosts", text=text, table=table(columns, cells))


def _where(stretches: Sequence[Stretch], recovered: Sequence[ShardProgress], moves: Sequence[Moved]) -> list[Section]:
    """Which shard was where in each batch, as a picture."""
    if not stretches:
        return []
    shards = _chosen(stretches, recovered, moves)
    row_of = {shard: place for place, shard in enumerate(shards)}
    drawn = [one for one in stretches if (one.operator, one.shard) in row_of]
    names = _named(drawn)
    number = {name: place for place, name in enumerate(names)}
    bands = _bands(drawn, row_of, number)
    struck = [row for row in recovered if (row.operator, row.shard) in row_of]
    signs = _signs(struck, moves, row_of, first=min(one.first for one in drawn))
    everything = len({(one.operator, one.shard) for one in stretches})
    notes = [
        "Colours are hosts. A small arrow is a move: the memory was handed over. A diamond is a recovery from backups, "
        "after a move or in place; what a recovery can have cost is told under Failures."
    ]
    if everything > len(shards):
        notes.append(
            f"{len(shards)} of {everything:,} shards are drawn: those that moved or recovered most, then the first."
        )
    if _OTHERS in number:
        notes.append(f"The {SERIES_MAX - 1} hosts with most of them have names here; hovering tells the others'.")
    room = PARTS_MAX - len(signs := signs[-(PARTS_MAX // 2) :])
    if len(bands) > room:
        bands = sorted(bands, key=lambda band: band.last)[-room:]
        notes.append("Shards moved so often that only the newest stretches are drawn.")
    first = min(band.first for band in bands)
    chart = band_chart(
        [f"{operator} {index}" for operator, index in shards],
        names,
        bands,
        [sign for sign in signs if sign.at >= first],
        title="Which shard was where",
        x_label="batch",
        y_label="shard",
    )
    return [Section("Which shard was where", text="\n\n".join(notes), chart=chart)]


def _chosen(stretches: Iterable[Stretch], recovered: Iterable[ShardProgress], moves: Iterable[Moved]) -> list[Shard]:
    """The shards to draw, by operator and index: if there are too many, those that most happened to."""
    operators: dict[str, int] = {}
    happened: Counter[Shard] = Counter()
    for one in stretches:
        operators.setdefault(one.operator, len(operators))
        happened[one.operator, one.shard] += 0
    for row in recovered:
        happened[row.operator, row.shard] += 1
    for move in moves:
        if (move.operator, move.shard) in happened:
            happened[move.operator, move.shard] += 1

    def in_order(shard: Shard) -> tuple[int, int]:
        return operators[shard[0]], shard[1]

    most = sorted(happened, key=lambda shard: (-happened[shard], in_order(shard)))
    return sorted(most[:ROWS_MAX], key=in_order)


def _named(stretches: Iterable[Stretch]) -> list[str]:
    """The hosts that have a colour of their own, by name, and one for all others if those are too many."""
    batches = Counter[str]()
    for one in stretches:
        batches[one.host] += one.last - one.first + 1
    if len(batches) <= SERIES_MAX:
        return sorted(batches)
    return [*sorted(name for name, _ in batches.most_common(SERIES_MAX - 1)), _OTHERS]


def _bands(stretches: Sequence[Stretch], row_of: dict[Shard, int], number: dict[str, int]) -> list[Band]:
    """Of each shard the stretches of batches, one after the other, in which nothing changed."""
    others = number.get(_OTHERS, 0)
    found = []
    for one in sorted(stretches, key=lambda one: (row_of[one.operator, one.shard], one.first)):
        note = f"epoch {one.epoch}" if one.host in number else f"{one.host}, epoch {one.epoch}"
        place = row_of[one.operator, one.shard]
        found.append(Band(place, one.first, one.last, number.get(one.host, others), note))
    return found


def _signs(
    rows: Sequence[ShardProgress], moves: Sequence[Moved], row_of: dict[Shard, int], *, first: int
) -> list[Sign]:
    """Moves and recoveries by batch; one that was both is a recovery."""
    found: dict[tuple[int, int], Sign] = {}
    for move in moves:
        place = row_of.get((move.operator, move.shard))
        if place is not None and move.batch >= first:
            found[place, move.batch] = Sign(place, move.batch, move.sentence(), loud=not move.handed_over)
    for row in rows:
        place = row_of[row.operator, row.shard]
        if not ((sign := found.get((place, row.batch))) and sign.loud):
            told = f"Shard {row.shard} of operator {row.operator!r} was recovered on {row.host} in batch {row.batch}."
            found[place, row.batch] = Sign(place, row.batch, told, loud=True)
    return sorted(found.values(), key=lambda sign: (sign.at, sign.row))


def _moves(moves: Sequence[Moved]) -> list[Section]:
    if not moves:
        return []
    newest = moves[-_TOLD_MAX:]
    cells: list[list[Value]] = [
        [
            move.batch,
            move.operator,
            move.shard,
            move.source,
            move.target,
            move.epoch,
            move.why,
            Cell("handed over") if move.handed_over else Cell("recovered", tone="warn", note=move.how),
            Cell(size(move.bytes), sort=move.bytes),
            Cell(duration(move.seconds), sort=move.seconds),
        ]
        for move in newest
    ]
    reasons = Counter((move.why, move.how) for move in moves)
    told = "; ".join(f"{often:,} {how}, since {why}" for (why, how), often in reasons.most_common(10))
    more = f" The last {_TOLD_MAX} are told one by one." if len(moves) > _TOLD_MAX else ""
    columns = ["Batch", "Operator", "Shard", "From", "To", "Epoch", "Why", "How", "Bytes", "Took"]
    text = (
        f"Shards had a new owner {times(len(moves))}: {told}. What is handed over is whole; what is "
        f"recovered is a failure.{more}"
    )
    return [Section("Moves", text=text, table=table(columns, cells))]


def _waits(waits: Sequence[Waited]) -> list[Section]:
    if not waits:
        return []
    cells: list[list[Value]] = [
        [
            wait.batch,
            wait.host,
            Cell(f"{wait.seconds:,.1f}", sort=wait.seconds),
            "came back" if wait.came_back else Cell("its shards moved", tone="warn"),
        ]
        for wait in waits[-_TOLD_MAX:]
    ]
    returned = sum(wait.came_back for wait in waits)
    more = f" The last {_TOLD_MAX} are told one by one." if len(waits) > _TOLD_MAX else ""
    seconds = sum(wait.seconds for wait in waits)
    back = f" It came back {times(returned)}: its shards were still there, and nothing was lost." if returned else ""
    text = (
        f"Batches waited {times(len(waits))} for a host that showed no executor, {seconds:,.1f} s in all.{back}{more}"
    )
    return [Section("Waits", text=text, table=table(["Batch", "Host", "Seconds", "Then"], cells))]
