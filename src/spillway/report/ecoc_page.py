"""The page of the ECOC evaluation: our figures, what the paper says of each, and whether that is so here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway.records.reproduction import Check, Reproduction
from spillway.report.charts import Group, Mark, Series, bar_chart, line_chart
from spillway.report.page import Cell, Section, Value, page, table

Row = dict[str, Any]

_MIB = float(1 << 20)
_READING = """Each stream process is cut into one job for each operator, and each job is protected as a setting says: \
not at all (unsafe), by checkpoints each for itself that hold the stream logs (uncoordinated), or by checkpoints that \
wait for those of the readers (coordinated: ECOC; extended: with Ext-Requests). An interval is the number of elements \
between two checkpoints.

What must hold decides whether this reproduction succeeded. The other relations are what the text of the paper says of \
its figures, which tell no numbers; they stand beside ours, judged on means, and one that does not hold is said so."""

_FIGURES: dict[int, tuple[str, str, float]] = {
    13: ("Figure 13: network overhead", "checkpoint bytes / element bytes", 1.0),
    14: ("Figure 14: CPU", "µs of CPU an element", 1e-6),
    15: ("Figure 15: memory", "KiB held, mean", 1024.0),
    16: ("Figure 16: recovery time", "seconds", 1.0),
    17: ("Figure 17: CPU during recovery", "share of all cores", 1.0),
    18: ("Figure 18: memory during recovery", "MiB, mean", _MIB),
    19: ("Figure 19: catch-up time", "seconds", 1.0),
    20: ("Figure 20: CPU during catch-up", "share of all cores", 1.0),
    21: ("Figure 21: memory during catch-up", "MiB, mean", _MIB),
    23: ("Figure 23: network overhead, with cycles", "checkpoint bytes / element bytes", 1.0),
    24: ("Figure 24: CPU, with cycles", "µs of CPU an element", 1e-6),
}
"""By figure: its title, what its values are, and how large one of these is in the records."""

_EXPLAINED = {
    13: "Ours are bytes of backups and saved logs over bytes of files in stream logs. A part of a log that an earlier "
    "checkpoint holds is not written again, where the paper sends it anew, and tuples that are acknowledged between "
    "two checkpoints are never saved: so what uncoordinated checkpoints save of logs is less than all that is sent.",
    14: "Ours is the CPU time of one process that runs all operators in turn, for an element of a sensor. The paper's "
    "is the load of a PDA at 30 elements a second. With so few tuples in a batch most of it is what a batch and its "
    "files cost, and a durable checkpoint is many times an element: beside that there is little else to do.",
    15: "Ours is what shards and stream logs hold in shared memory, all operators together. The paper's is a Java "
    "process, in which a checkpoint message is a structure of its own while it is sent, and in which logs are a small "
    "part of the whole. Here there is nothing but state and logs, and both protections keep a log until its reader has "
    "acknowledged; coordinated ones keep it a little longer, because a checkpoint first waits for those downstream. "
    "So coordinated need be neither near unsafe nor below uncoordinated.",
    16: "From when a running node is told to take over to the first batch that counts. Most of it is Spark, which "
    "loads and plans its first query; reading a checkpoint of some kilobytes is next to nothing.",
    19: "From there until all was read that the producer had written by then: the batches since the checkpoint, and "
    "those that came while the job was down, at about the pace at which Spark does a small batch.",
    23: "As figure 13. In a cycle coordinated checkpoints would wait for each other for ever: so there is extended "
    "ECOC alone, and what it saves of the log is the part that breaks the cycle. Feedback is a stream log like any "
    "other here, saved like one, with the elements of both sensors: so it need not lower the overhead of "
    "uncoordinated checkpoints.",
    24: "As figure 14.",
}


def ecoc_page(path: Path, manifest: Row) -> str:
    """The page of a reproduction in a run directory."""
    records = Reproduction.read(path, manifest)
    must = [check for check in records.checks if check.decides]
    sections = [Section("What must hold", text=_READING, table=_checks(must))]
    if "failures" in records.tables:
        sections.append(_kills(records.tables["failures"]))
    for figure in _FIGURES:
        rows = records.tables.get(f"figure_{figure}", [])
        if rows:
            sections.append(_figure(figure, rows, records.checks))
    return page(
        "Coordinated checkpoints, reproduced",
        sections,
        subtitle="The evaluation of efficient coordinated operator checkpointing (ECOC) on Spillway, beside what the "
        "paper says.",
        footer=f"Written by Spillway from {path.name}. It asks nothing of the network.",
    )


def charts(path: Path, manifest: Row) -> dict[str, str]:
    """Every chart of the page as an SVG of its own, by file name."""
    records = Reproduction.read(path, manifest)
    return {
        f"figure-{figure}{name}.svg": chart
        for figure in _FIGURES
        if (rows := records.tables.get(f"figure_{figure}", []))
        for name, chart in _charts(figure, rows).items()
    }


def _checks(checks: Sequence[Check]) -> str:
    rows: list[list[Value]] = [
        [
            check.name.partition(": ")[2],  # which figure it is about, or that it must hold, says the heading
            Cell(
                "holds" if check.holds else "does not hold",
                tone="good" if check.holds else "bad" if check.decides else "warn",
            ),
            _told(check.ours),
            _told(check.paper),
        ]
        for check in checks
    ]
    return table(["", "here it", "ours", "the paper"], rows)


def _told(found: float | str | None) -> str:
    return "" if found is None else found if isinstance(found, str) else f"{found:.4g}"


def _kills(rows: Sequence[Row]) -> Section:
    columns = ["process", "setting", "interval", "killed after batch", "went back to", "recovery", "catch-up"]
    columns += ["node had started in", "tuples", "lost or wrong", "LOLE", "IASO", "latest"]
    cells: list[list[Value]] = [
        [
            row["process"],
            row["setting"],
            row["interval"],
            row["committed"],
            row["went_back_to"],
            _seconds(row["recovery_seconds"]),
            _seconds(row["catch_up_seconds"]),
            _seconds(row["start_s"]),
            row["ideal_tuples"],
            row["lost_tuples"] + row["wrong_tuples"],
            _yes(row["lole"]),
            _yes(row["iaso"]),
            _seconds(row["delay_max_s"]),
        ]
        for row in rows
    ]
    text = """The job that the paper names is killed with all its processes, its shards and the logs it writes are \
removed, and a node that was already running takes it over. What came out is compared with what the process puts out \
as one graph that nothing disturbs: LOLE means no tuple lost or wrong, IASO all in order. The latest is how long after \
its sample was due a tuple came."""
    return Section("Every kill", text=text, table=table(columns, cells))


def _seconds(value: float | None) -> Cell:
    return Cell("") if value is None else Cell(f"{value:.1f} s", sort=value)


def _yes(value: bool | None) -> Cell:
    return Cell("yes" if value else "no", tone="good" if value else "bad")


def _figure(figure: int, rows: Sequence[Row], checks: Sequence[Check]) -> Section:
    title, _, _ = _FIGURES[figure]
    own = [check for check in checks if check.name.startswith(f"figure {figure},")]
    return Section(
        title,
        text=_EXPLAINED.get(figure, ""),
        chart="".join(_charts(figure, rows).values()),
        table=_checks(own) if own else "",
    )


def _charts(figure: int, rows: Sequence[Row]) -> dict[str, str]:
    """A chart for each process, against the interval; one for all if there is but one interval."""
    title, label, unit = _FIGURES[figure]
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    processes = list(dict.fromkeys(row["process"] for row in rows))
    intervals = {row["interval"] for row in rows if row["setting"] != "unsafe"}
    if len(intervals) == 1:
        groups = []
        for process in processes:
            own = {row["setting"]: row for row in rows if row["process"] == process}
            shown = [own[setting] for setting in settings if setting in own]
            groups.append(
                Group(
                    process,
                    [(row["setting"], row["mean"] / unit) for row in shown],
                    [(row["least"] / unit, row["most"] / unit) for row in shown]
                    if all(row["samples"] > 1 for row in shown)
                    else None,
                )
            )
        (interval,) = intervals
        return {"": bar_chart(groups, title=f"{title}, at {interval:,} elements", y_label=label)}
    return {f"-{process}": _against_interval(figure, process, rows) for process in processes}


def _against_interval(figure: int, process: str, rows: Sequence[Row]) -> str:
    title, label, unit = _FIGURES[figure]
    own = [row for row in rows if row["process"] == process]
    series = []
    for setting in dict.fromkeys(row["setting"] for row in own if row["setting"] != "unsafe"):
        points = [row for row in own if row["setting"] == setting]
        series.append(
            Series(
                setting,
                [(float(row["interval"]), row["mean"] / unit) for row in points],
                [(row["least"] / unit, row["most"] / unit) for row in points]
                if all(row["samples"] > 1 for row in points)
                else None,
            )
        )
    unsafe = [Mark(label="unsafe", y=row["mean"] / unit) for row in own if row["setting"] == "unsafe" and row["mean"]]
    return line_chart(
        series,
        title=f"{process}, {title.partition(': ')[2]}",
        x_label="elements between two checkpoints",
        y_label=label,
        marks=unsafe,
    )
