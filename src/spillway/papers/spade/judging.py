"""What the experiments of seed 004 must show, and what else its figures do, judged on what was measured."""

from collections.abc import Sequence
from itertools import pairwise

from spillway.records.reproduction import Check, Row

OVERHEAD_MAX = 0.02
"""Of a window of 32,768 tuples, saved every second in groups of 512."""

_GOAL = (32_768, 512)


def judge_crashes(scenarios: Sequence[Row], runs: Sequence[Row]) -> list[Check]:
    """All of it must hold but how many runs agree."""
    by_name = {row["scenario"]: row for row in scenarios}
    saved, bare = by_name["S2"], by_name["S3"]
    better = sum(row["with_rmse"] < row["without_rmse"] for row in runs)
    alike = sum(row["golden_same"] for row in runs)
    before = sum(row["with_same_before"] and row["without_same_before"] for row in runs)
    lost = sum(row["with_recovered_from"] not in ("", "nothing") for row in runs)
    empty = sum(row["without_recovered_from"] == "nothing" for row in runs)
    count = len(runs)
    return [
        Check(
            name="must: figure 7, RMSE from the crash on is lower with a checkpoint than without",
            holds=saved["rmse"] < bare["rmse"],
            ours=f"{_mean(saved)} with, {_mean(bare)} without, of {count} runs each",
            paper="4.80 with, 7.79 without, of 40 runs each",
        ),
        Check(
            name="must: every crash lost the model's memory, and only the one with a checkpoint had it back",
            holds=lost == empty == count,
            ours=f"{lost} and {empty} of {count}",
            paper="so it is meant (5.1)",
        ),
        Check(
            name="must: all runs without a crash predict the same",
            holds=alike == count,
            ours=f"{alike} of {count}",
            paper="all of 40",
        ),
        Check(
            name="must: predictions before a crash are those of a run without",
            holds=before == count,
            ours=f"{before} of {count}",
            paper="identical (5.1)",
        ),
        Check(
            name="figure 7, the largest difference of a prediction is smaller with a checkpoint",
            holds=saved["largest"] < bare["largest"],
            ours=f"{saved['largest']:.2f} with, {bare['largest']:.2f} without",
            paper="6 with, 52 without, in one run",
            decides=False,
        ),
        Check(
            name="figure 7, RMSE is lower with a checkpoint in every single run",
            holds=better == count,
            ours=f"{better} of {count}",
            paper=None,
            decides=False,
        ),
    ]


def judge_joins(rows: Sequence[Row]) -> list[Check]:
    """That the goal is met must hold; the rest is said of what was measured."""
    checks = []
    for judge in (_goal, _rates, _figure_8, _figure_9, _figure_10):
        checks += judge(rows)
    return checks


def _goal(rows: Sequence[Row]) -> list[Check]:
    window, group = _GOAL
    found = _chosen(rows, window=window, group=group, interval_s=1.0)
    controls = _chosen(rows, window=window, control=True)
    return [
        Check(
            name=f"must: checkpoints of a window of {window:,} every second, in groups of {group}, cost at most "
            f"{OVERHEAD_MAX:.0%}",
            holds=row["checkpoints"] > 0 and 1 - row["ratio"] <= OVERHEAD_MAX,
            ours=f"{_overhead(row)} of processor time ({1 - row['ratio_high']:.2%} to {1 - row['ratio_low']:.2%}, "
            f"{row['samples']} stretches); of whole batches {1 - row['batch_ratio']:.2%}, where two without "
            f"checkpoints are {abs(1 - control['batch_ratio']):.2%} apart; saving itself takes "
            f"{row['saving_share']:.2%}",
            paper="less than 1 %",
        )
        for row, control in zip(found, controls, strict=True)
    ]


def _rates(rows: Sequence[Row]) -> list[Check]:
    bare = sorted(_chosen(rows, by_key=False, interval_s=None, control=False), key=lambda row: int(row["window"]))
    if len(bare) < 2:
        return []
    rates = [row["input_per_s"] for row in bare]
    return [
        Check(
            name="table 1, the input rate falls with every larger window",
            holds=all(a > b for a, b in pairwise(rates)),
            ours=", ".join(f"{rate:,.0f}" for rate in rates) + " tuples/s",
            paper="9,351, 5,054, 2,503, 970, 890 tuples/s",
            decides=False,
        )
    ]


def _figure_8(rows: Sequence[Row]) -> list[Check]:
    every = _chosen(rows, by_key=False, interval_s=1.0)
    checks = []
    small, goal = (_chosen(every, window=window) for window in (8_192, 32_768))
    if small:
        checks.append(
            _relation(
                "figure 8, a window of 8,192 costs more than 5 % in groups of any size",
                all(row["ratio"] < 0.95 for row in small),
                _by_group(small),
                "more than 5 % in all",
            )
        )
    if len(goal) > 1:
        least = max(goal, key=lambda row: float(row["ratio"]))
        checks.append(
            _relation(
                "figure 8, at a window of 32,768 groups of 512 cost least",
                least["group"] == 512,
                _by_group(goal),
                "least, less than 1 %",
            )
        )
    pair = [_chosen(one, group=512) for one in (small, goal)]
    if all(pair):
        (first,), (second,) = pair
        checks.append(
            _relation(
                "figure 8, in groups of 512 a window of 32,768 costs less than one of 8,192",
                second["ratio"] > first["ratio"],
                f"{_overhead(second)} and {_overhead(first)}",
                "less than 1 % and more than 5 %",
            )
        )
    return checks


def _figure_9(rows: Sequence[Row]) -> list[Check]:
    pairs = []
    for row in _chosen(rows, by_key=False, interval_s=10.0):
        for other in _chosen(rows, by_key=False, window=row["window"], group=row["group"], interval_s=1.0):
            pairs.append((row, other))
    if not pairs:
        return []
    cheaper = sum(row["ratio"] >= other["ratio"] for row, other in pairs)
    told = ", ".join(f"{_overhead(row)} against {_overhead(other)} at {row['window']:,}" for row, other in pairs)
    return [
        _relation(
            "figure 9, every ten seconds costs less than every second",
            cheaper == len(pairs),
            f"{cheaper} of {len(pairs)}: {told}",
            "so it is",
        )
    ]


def _figure_10(rows: Sequence[Row]) -> list[Check]:
    by_key = _chosen(rows, by_key=True, interval_s=1.0)
    checks = []
    if len(by_key) > 1:
        least = max(by_key, key=lambda row: float(row["ratio"]))
        checks.append(
            _relation(
                "figure 10, every second groups of 64 cost least",
                least["group"] == 64,
                _by_group(by_key),
                "1.37 % of input and 1.83 % of output, the least",
            )
        )
    shared = _chosen(rows, window=_GOAL[0], group=_GOAL[1], interval_s=1.0)
    if by_key and shared:
        best = max(row["ratio"] for row in by_key)
        checks.append(
            _relation(
                "figure 10, a per-group join costs more than one with a window of 32,768",
                best < shared[0]["ratio"],
                f"{1 - best:.2%} at best against {_overhead(shared[0])}",
                "more in general",
            )
        )
    return checks


def _relation(name: str, holds: bool, ours: str, paper: str) -> Check:
    return Check(name=name, holds=holds, ours=ours, paper=paper, decides=False)


def _chosen(rows: Sequence[Row], **wanted: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def _overhead(row: Row) -> str:
    return f"{1 - row['ratio']:.2%}"


def _by_group(rows: Sequence[Row]) -> str:
    return ", ".join(f"{_overhead(row)} in groups of {row['group']:,}" for row in rows)


def _mean(row: Row) -> str:
    return f"{row['rmse']:.3f} ({row['rmse_low']:.3f} to {row['rmse_high']:.3f})"
