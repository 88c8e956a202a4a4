"""The tables of a bench, from its summary."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from spillway.benches.figures import Comparison
from spillway.cli.output import Told, rate
from spillway.records.figures import size
from spillway.records.times import Work


def told(bench: str, summary: dict[str, Any]) -> Iterator[Told | str]:
    """What a bench found, for people."""
    return _TOLD[bench](summary)


def told_comparison(comparison: Comparison, against: Path) -> Iterator[Told | str]:
    """The ratios of medians, and what else differs."""
    words = {True: "apart", False: "overlap", None: "too few"}
    yield Told(
        f"Against {against}: medians",
        ["what", "measure", "now", "before", "now / before", "95 % intervals"],
        [
            [
                change.subject,
                change.measure,
                f"{change.now:,.4g}",
                f"{change.before:,.4g}",
                "-" if change.ratio is None else f"{change.ratio:.3f}",
                words[change.apart],
            ]
            for change in comparison.changes
        ],
    )
    for differences in (comparison.settings, comparison.about, comparison.machine):
        for name, (now, before) in differences.items():
            yield f"Not the same: {name} is {now}, was {before}."


def _af(found: dict[str, Any]) -> Iterator[Told | str]:
    for name, of_one in found["workloads"].items():
        paper = of_one["paper"]
        yield Told(
            f"{name}: {of_one['tuples_per_batch']:,} tuples a batch, theta {of_one['theta']:,g}",
            [
                "protection",
                "M tuples/s",
                "approximate is",
                "protecting",
                f"paper, {paper['unit']}",
                "backups",
                "state",
                "items",
            ],
            [
                [
                    mode,
                    f"{of_one['tuples_per_s'][mode] / 1e6:.3f}",
                    _approximate_over(of_one, mode),
                    f"{of_one['protecting_share'][mode]:.1%}",
                    f"{paper[mode]:,g}" if mode in paper else "",
                    f"{median(of_one['backups'][mode]):g}",
                    size(median(of_one["backup_bytes"][mode])),
                    size(median(of_one["item_bytes"][mode])),
                ]
                for mode in of_one["tuples_per_s"]
            ],
        )
        yield from _ratios(of_one)
        yield f"approximate over none in the paper: {paper['approximate_over_none']:.3f}"


def _approximate_over(of_one: dict[str, Any], mode: str) -> str:
    """How many times as fast approximate is, where its writes are as quick or slow."""
    approximate = "approximate-slow" if mode.endswith("-slow") else "approximate"
    return "" if mode == approximate else f"{of_one['ratio'][f'{approximate}_over_{mode}']:.2f}x"


def _receiver(found: dict[str, Any]) -> Iterator[Told | str]:
    yield Told(
        "A receiver on one core",
        ["format", "items a second", "lowest", "highest"],
        [
            [name, rate(found["items_per_s"][name]), rate(min(rates)), rate(max(rates))]
            for name, rates in found["samples"].items()
        ],
    )
    yield (
        f"{found['lost']:,} of {found['sent']:,} items lost, none taken twice; {found['saved_items']:,} were made "
        f"durable."
    )


def _kafka(found: dict[str, Any]) -> Iterator[Told | str]:
    yield Told(
        f"JSON records counted, {found['records_per_batch']:,} a batch",
        ["through", "records a second"],
        [[name.replace("_", " "), rate(per_s)] for name, per_s in found["records_per_s"].items()],
    )
    yield from _ratios(found)
    yield Told(
        "What limits it: one reader, one thing",
        ["what", "records a second"],
        [[name, rate(per_s)] for name, per_s in found["alone_records_per_s"].items()],
    )
    whole_s = sum(found["where_s"].values())
    yield Told(
        "Where a batch of the topic spends its time",
        ["on", "share"],
        [[Work(work).label, f"{seconds / whole_s:.0%}"] for work, seconds in found["where_s"].items()],
    )
    yield f"The broker is {found['broker']}: a network, a disk and other readers come on top with a real one."


def _wordcount(found: dict[str, Any]) -> Iterator[Told | str]:
    ours = found["kernel_tuples_per_s"]
    yield Told(
        f"Counting {found['tuples_per_batch']:,} tuples a batch into {found['keys']:,} keys",
        ["system", "M tuples/s", "in the kernel", "backups a turn", "written a turn"],
        [
            [
                name,
                f"{per_s / 1e6:.2f}",
                f"{ours[name] / 1e6:.2f}" if name in ours else "-",
                f"{median(found['backups'][name]):g}" if name in ours else "every batch",
                size(median(found["backup_bytes"][name])) if name in ours else "-",
            ]
            for name, per_s in found["tuples_per_s"].items()
        ],
    )
    yield Told(
        "Where the time of a batch goes, ms",
        ["system", *(work.label for work in Work), "together"],
        [
            [name, *(f"{1000 * where[work]:.0f}" for work in Work), f"{1000 * sum(where.values()):.0f}"]
            for name, where in found["where_s"].items()
        ],
    )
    yield from _ratios(found)
    limit = found["limit"]
    yield (
        f"A bare upsert on one core: {limit['tuples_per_s'] / 1e6:.1f} M tuples/s; our operator has "
        f"{limit['kernel_over_limit']:.2f} of that."
    )


def _exact(found: dict[str, Any]) -> Iterator[Told | str]:
    written, recovery, again = found["backup_bytes"], found["recovery_s"], found["batches_again"]
    yield Told(
        f"Exactly once: {found['tuples_per_batch']:,} tuples a batch into {found['keys']:,} keys, a checkpoint every "
        f"{found['every']} batches",
        ["system", "M tuples/s", "written a turn", "back after a loss, s", "batches done again"],
        [
            [
                name,
                f"{per_s / 1e6:.2f}",
                size(median(written[name])) if name in written else "-",
                f"{recovery[name]:.2f}" if name in recovery else "-",
                f"{again[name]:g}" if name in again else "-",
            ]
            for name, per_s in found["tuples_per_s"].items()
        ],
    )
    yield from _ratios(found)


def _replicas(found: dict[str, Any]) -> Iterator[Told | str]:
    if found["tuples_per_s"]:
        yield Told(
            "A job once, as a group of two, and fully replicated",
            ["way", "k tuples/s", "memory of state", "backups a turn"],
            [
                [
                    name,
                    f"{per_s / 1e3:,.0f}",
                    size(found["memory_bytes"][name]),
                    size(found["backup_bytes"][name]),
                ]
                for name, per_s in found["tuples_per_s"].items()
            ],
        )
        yield from _ratios(found)
    lost = found.get("lost", {})
    if "failover_s" in found:
        times = found["failover_s"]
        same = "identical to" if found["identical"] else "ANOTHER THAN"
        yield (
            f"{times['kills']} kills of the active replica, by position: the reader went on after "
            f"{times['median']:.2f} s (median; worst {times['worst']:.2f}), of which {found['detected_s']:.2f} s until "
            f"another was active; "
            f"{lost['by_position']:,.0f} tuples lost, output {same} that of an undisturbed run."
        )
    if "free_running" in lost:
        yield (f"Free running: {lost['free_running']:,.0f} of {found['lost_of_free_running']:,.0f} tuples lost.")


def _state(found: dict[str, Any]) -> Iterator[Told | str]:
    yield Told(
        f"A batch touching {found['touched']:,} keys",
        ["keys in the table", "ms a batch", "ms in the shard", "memory over raw"],
        [
            [
                f"{int(keys):,}",
                f"{batch_s * 1e3:.2f}",
                f"{found['in_the_shard_s'][keys] * 1e3:.2f}",
                f"{found['memory_over_raw'][keys]:.2f}",
            ]
            for keys, batch_s in found["batch_s"].items()
        ],
    )
    yield from _ratios(found)


def _model(found: dict[str, Any]) -> Iterator[Told | str]:
    called = {
        "spillway": "spillway",
        "simpy_net": "simpy, the same net",
        "simpy_operators": "simpy, a process per operator",
    }
    completions = {"spillway": rate(found["events_per_s"]["line"])}
    yield Told(
        f"A line of {found['operators']} operators, one core",
        ["", "completions", "model seconds per second", "stored per model second"],
        [
            [called[name], completions.get(name, ""), f"{model_s:,.1f}", f"{found['stored_per_s'][name]:.1f}"]
            for name, model_s in found["model_s_per_cpu_s"].items()
        ],
    )
    streams = {name: per_s for name, per_s in found["events_per_s"].items() if name != "line"}
    yield "bargain discovery: " + ", ".join(f"{name} {rate(per_s)}" for name, per_s in streams.items())
    ratio = found["ratio"]
    yield f"over {called['simpy_net']}: {ratio['over_simpy']:.0f}x"
    yield f"over {called['simpy_operators']}: {ratio['over_simpy_operators']:.0f}x"
    yield f"fast-forward over every event, {found['hours']:g} hours: {ratio['fast_forward']:.0f}x"
    told = ", ".join(f"{name} {value:.2f}" for name, value in found["half_widths_off_exact"].items())
    yield f"half-widths (95 %) between simulated and exact: {told}"


def _ratios(found: dict[str, Any]) -> Iterator[Told | str]:
    intervals = found.get("ratio_interval", {})
    for name, ratio in found["ratio"].items():
        low, high = intervals.get(name, (ratio, ratio))
        between = f" ({low:.2f} to {high:.2f})" if low < high else ""
        yield f"{name.replace('_', ' ')}: {ratio:.2f}{between}"


def _batch(found: dict[str, Any]) -> Iterator[Told | str]:
    yield Told(
        f"A batch of {found['tuples_per_batch']:,} tuples",
        ["system", "ms a batch"],
        [[name, f"{batch_ms:.0f}"] for name, batch_ms in found["batch_ms"].items()],
    )
    yield f"Ours over Spark's: {found['ratio']['ours_over_spark']:.2f}"


def _hosts(found: dict[str, Any]) -> Iterator[Told | str]:
    yield from _real_hosts(found["real"]) if "real" in found else _simulated_hosts(found)


def _real_hosts(found: dict[str, Any]) -> Iterator[Told | str]:
    yield Told(
        "The same cores",
        ["cluster", "ms a batch", "M tuples/s"],
        [
            [name, f"{1000 * batch_s:,.0f}", f"{found['tuples_per_s'][name] / 1e6:.3f}"]
            for name, batch_s in found["batch_s"].items()
        ],
    )
    least, most = found["pinning_ms_interval"]
    yield f"Hops in {found['batches']:,} batches on three hosts: {found['hops']}"
    yield f"Three hosts over one: {found['three_over_one']:.2f}"
    yield (
        f"Pinning costs a batch of two stages {found['pinning_ms']:.1f} ms ({least:.1f} to {most:.1f}), "
        f"{found['pinning_ms_a_stage']:.1f} a stage."
    )
    yield Told(
        "One shard, moved",
        ["keys", "state", "handed over, ms", "recovered, ms"],
        [
            [
                f"{handed['keys']:,}",
                size(handed["bytes"]),
                f"{1000 * handed['seconds']:,.0f}",
                f"{1000 * recovered['seconds']:,.0f}",
            ]
            for handed, recovered in zip(found["moves"]["handed over"], found["moves"]["recovered"], strict=True)
        ],
    )


def _simulated_hosts(found: dict[str, Any]) -> Iterator[Told | str]:
    simulated, stages = found["simulated"], found["stages"]
    changes = simulated["changes"]
    yield Told(
        f"{simulated['hosts']:,} hosts, {simulated['shards']:,} shards: what the driver decides before a batch",
        ["what happens", "ms", "moves", "state", "most to one", "over mean", "fullest over mean"],
        [
            [
                subject,
                f"{1000 * decide_s:,.3f}",
                *(
                    [
                        f"{changes[subject]['moves']:,}",
                        size(changes[subject]["bytes"]),
                        size(changes[subject]["one_host_bytes"]),
                        f"{changes[subject]['moves_to_one_max_over_mean']:.2f}",
                        f"{changes[subject]['shards_of_one_max_over_mean']:.3f}",
                    ]
                    if subject in changes
                    else ["-"] * 5
                ),
            ]
            for subject, decide_s in simulated["decide_s"].items()
        ],
    )
    yield (
        f"The table of owners is {size(simulated['table_bytes'])}, made durable in "
        f"{1000 * simulated['table_write_s']:,.0f} ms at every change."
    )
    telling = simulated["telling"]
    yield (
        f"What a batch tells its tasks of owners: {size(telling['bytes'])}, put into words in "
        f"{1000 * telling['tell_s']:,.0f} ms by the driver, read in {1000 * telling['read_s']:,.0f} ms by each Python "
        f"worker. It goes along with every task: {size(telling['with_every_task_bytes'])} a batch. If each were told "
        f"of its own shard alone, it would be {size(telling['own_alone_bytes'])}."
    )
    records = found["records"]
    yield (
        f"Records of a batch: {size(records['batch_bytes'])}, written in {1000 * records['write_s']:,.0f} ms; the last "
        f"{records['batches_kept']:,.0f} batches are kept."
    )
    backups = simulated["backups"]
    yield (
        f"Backups, as the settings assume: {backups['files_per_s']:,.0f} files and {size(backups['bytes_per_s'])} a "
        f"second, {size(backups['bytes_per_s_of_a_host'])} of each host; all state is {size(simulated['state_bytes'])}."
    )
    yield Told(
        "Stages of tasks that do nothing, on Spark on this machine",
        ["tasks", "ms a task", "pinned", "to name hosts, after a change"],
        [
            [f"{int(tasks):,}", *(f"{1000 * stages[part][tasks] / int(tasks):.2f}" for part in _STAGES)]
            for tasks in stages["free_s"]
        ],
    )
    all_of_them = stages["extrapolated"]
    yield (
        f"Extrapolated to {all_of_them['tasks']:,} tasks: {all_of_them['begin_s']:,.0f} s to begin them all, if this "
        f"machine did; {all_of_them['host_s']:,.1f} s of a core of each host to read where the others are; "
        f"{all_of_them['naming_s']:,.1f} s of the driver to name hosts after a change."
    )


def _protect(found: dict[str, Any]) -> Iterator[Told | str]:
    yield Told(
        f"groupBy(...).agg(count, sum, max): {found['tuples_per_batch']:,} rows a batch, {found['groups']:,} groups",
        ["query and system", "M rows/s"],
        [[name.replace("_", " ", 1), f"{per_s / 1e6:.2f}"] for name, per_s in found["rows_per_s"].items()],
    )
    yield from _ratios(found)


_STAGES = ("free_s", "pinned_s", "naming_s")

_TOLD: dict[str, Callable[[dict[str, Any]], Iterator[Told | str]]] = {
    "af": _af,
    "receiver": _receiver,
    "kafka": _kafka,
    "wordcount": _wordcount,
    "exact": _exact,
    "batch": _batch,
    "state": _state,
    "model": _model,
    "hosts": _hosts,
    "replicas": _replicas,
    "protect": _protect,
}
