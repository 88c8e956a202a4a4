"""Where shards were, on the page of a run: hosts, bands, moves with their reasons, waits."""

import json
import re
from pathlib import Path

import pytest
from tests.records.placed import moved, waited
from tests.records.progressed import progress
from tests.report.browser import seen_in_browser
from tests.report.test_campaign_page import words
from tests.report.test_cli import call

from spillway.cli import report
from spillway.errors import InputError
from spillway.records.placing import Moved, Waited
from spillway.records.progress import ShardProgress
from spillway.records.rundir import RunDirectory
from spillway.report import hosts_part as part
from spillway.report.bands import Band, band_chart
from spillway.report.charts import SERIES_MAX
from spillway.report.pages import report_page

LATE = "its host was gone for longer than it may be late"


def written(
    path: Path, rows: list[ShardProgress], moves: list[Moved] | None = None, waits: list[Waited] | None = None
) -> Path:
    directory = RunDirectory(path, graph="words")
    directory.add(rows)
    directory.add_moves(moves or [])
    directory.add_waits(waits or [])
    directory.close("finished")
    return path


def life(shard: int, stretches: list[tuple[int, int, str]], **values: object) -> list[ShardProgress]:
    """A shard's batches: first and last of each stretch, and its host."""
    return [
        progress(shard=shard, batch=batch, host=host, epoch=epoch, tuples=10, **values)
        for epoch, (first, last, host) in enumerate(stretches)
        for batch in range(first, last + 1)
    ]


def three_hosts(path: Path) -> Path:
    rows = [
        *life(0, [(0, 19, "10.0.0.1")]),
        *life(1, [(0, 4, "10.0.0.2"), (5, 19, "10.0.0.3")]),
        *life(2, [(0, 11, "10.0.0.3"), (12, 19, "10.0.0.1")]),
    ]
    recovered = progress(shard=2, batch=12, host="10.0.0.1", epoch=1, tuples=10, recovered=True)
    rows = [recovered if (row.shard, row.batch) == (2, 12) else row for row in rows]
    moves = [
        moved(batch=5, shard=1, source="10.0.0.2", target="10.0.0.3"),
        moved(batch=12, shard=2, source="10.0.0.3", target="10.0.0.1", why=LATE, handed_over=False),
    ]
    return written(path, rows, moves, [waited(batch=12, host="10.0.0.3", seconds=30.0, came_back=False)])


def bands_of(html: str) -> list[str]:
    return re.findall(r'<rect class="fill"[^>]*><title>([^<]*)</title>', html)


def signs_of(html: str, kind: str) -> list[str]:
    return re.findall(rf'<path class="{kind}"[^>]*><title>([^<]*)</title>', html)


def test_hosts_bands_moves_and_waits(tmp_path: Path) -> None:
    html = report_page(three_hosts(tmp_path / "run"))
    said = words(html)
    # Host, shards at the end, tuples, state, moved to and from it, recovered there, batches waited, seconds.
    assert "10.0.0.1 2 280 0 B 1 0 1 0 0.0" in said
    assert "10.0.0.2 0 50 0 B 0 1 0 0 0.0" in said
    assert "10.0.0.3 1 270 0 B 1 1 0 1 30.0" in said
    assert bands_of(html) == [
        "count 0, 10.0.0.1, batch 0 to 19: epoch 0",
        "count 2, 10.0.0.1, batch 12 to 19: epoch 1",
        "count 1, 10.0.0.2, batch 0 to 4: epoch 0",
        "count 1, 10.0.0.3, batch 5 to 19: epoch 1",
        "count 2, 10.0.0.3, batch 0 to 11: epoch 0",
    ]
    (handed,) = signs_of(html, "sign")
    assert "moved from 10.0.0.2 to 10.0.0.3 before batch 5 (somebody asked)" in handed
    (recovered,) = signs_of(html, "sign loud")
    assert f"before batch 12 ({LATE})" in recovered and "recovered from its backups" in recovered
    assert "5 count 1 10.0.0.2 10.0.0.3 1 somebody asked handed over 1.0 MB 500 ms" in said
    assert f"12 count 2 10.0.0.3 10.0.0.1 1 {LATE} recovered 1.0 MB" in said
    assert f"1 handed over, since somebody asked; 1 recovered from its backups, since {LATE}" in said
    assert "Batches waited once for a host that showed no executor, 30.0 s in all." in said
    assert "12 10.0.0.3 30.0 its shards moved" in said
    assert "came back" not in said


def test_one_machine_has_no_hosts(tmp_path: Path) -> None:
    html = report_page(written(tmp_path / "run", [progress(batch=0)]))
    assert "Hosts" not in words(html) and not bands_of(html)


def test_moves_are_told_though_no_shard_has_reported_since(tmp_path: Path) -> None:
    html = report_page(written(tmp_path / "run", [progress(batch=0)], [moved()], [waited()]))
    said = words(html)
    assert "somebody asked" in said and not bands_of(html)
    assert "It came back once: its shards were still there" in said


def test_a_recovery_in_place_is_marked_and_batches_without_a_record_are_left_blank(tmp_path: Path) -> None:
    rows = [row for row in life(0, [(0, 9, "a")]) if row.batch not in (3, 4)]
    rows[-1] = progress(shard=0, batch=9, host="a", recovered=True)
    html = report_page(written(tmp_path / "run", rows))
    assert bands_of(html) == ["count 0, a, batch 0 to 2: epoch 0", "count 0, a, batch 5 to 9: epoch 0"]
    assert signs_of(html, "sign loud") == ["Shard 0 of operator &#x27;count&#x27; was recovered on a in batch 9."]


def test_names_are_text_whatever_is_in_them(tmp_path: Path) -> None:
    evil = "<script>x</script>"
    rows = [progress(operator=evil, batch=batch, host=f"{evil}{batch // 5}", epoch=batch // 5) for batch in range(10)]
    move = moved(operator=evil, batch=5, source=f"{evil}0", target=f"{evil}1", why=evil)
    html = report_page(written(tmp_path / "run", rows, [move], [waited(host=evil)]))
    assert evil not in html
    assert f"{evil}1" in words(html)


def test_many_shards_are_limited_to_those_that_something_happened_to(tmp_path: Path) -> None:
    rows = [row for shard in range(100) for row in life(shard, [(0, 1, "a")])]
    rows += [progress(shard=99, batch=2, host="b", epoch=1), progress(shard=98, batch=2, host="a", recovered=True)]
    html = report_page(written(tmp_path / "run", rows, [moved(batch=2, shard=99)]))
    assert "64 of 100 shards are drawn" in words(html)
    drawn = {band.split(",")[0] for band in bands_of(html)}
    assert drawn == {f"count {shard}" for shard in (*range(62), 98, 99)}


def test_more_hosts_than_colours_share_one_and_tell_their_names(tmp_path: Path) -> None:
    rows = [progress(shard=0, batch=batch, host=f"h{batch:02}", epoch=batch) for batch in range(30)]
    rows += [progress(shard=1, batch=batch, host="h29") for batch in range(30)]
    html = report_page(written(tmp_path / "run", rows))
    named = {band.split(", ")[1] for band in bands_of(html)}
    assert len(named) == SERIES_MAX and {"other hosts", "h29"} <= named
    assert "count 0, other hosts, batch 28: h28, epoch 28" in bands_of(html)


def test_moves_without_end_draw_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "PARTS_MAX", 20)
    monkeypatch.setattr(part, "_TOLD_MAX", 5)
    rows = [progress(batch=batch, host="ab"[batch % 2], epoch=batch) for batch in range(100)]
    moves = [moved(batch=batch, epoch=batch, source="ba"[batch % 2], target="ab"[batch % 2]) for batch in range(1, 100)]
    html = report_page(written(tmp_path / "run", rows, moves, [waited(batch=batch) for batch in range(9)]))
    said = words(html)
    assert "only the newest stretches are drawn" in said
    assert said.count("The last 5 are told one by one.") == 2
    assert len(bands_of(html)) == 10 and len(signs_of(html, "sign")) == 10
    assert "Shards had a new owner 99 times: 99 handed over" in said


def test_a_chart_of_too_much_is_refused() -> None:
    with pytest.raises(InputError, match="65 rows of 1 things are more than 64 of 24"):
        band_chart(["row"] * 65, ["a"], [], [], title="T", x_label="x", y_label="y")
    with pytest.raises(InputError, match="20,001 parts are more than 20,000"):
        band_chart(["row"], ["a"], [Band(0, 0, 0, 0)] * 20_001, [], title="T", x_label="x", y_label="y")


def test_long_names_leave_room_for_the_bands() -> None:
    name = f"{'operator' * 30} 7"
    svg = band_chart([name], ["a"], [Band(0, 0, 9, 0)], [], title="T", x_label="batch", y_label="shard")
    assert ">…roperatoroperator 7</text>" in svg
    assert f"{name}, a, batch 0 to 9" in svg
    (width,) = re.findall(r'<rect class="fill"[^>]* width="([0-9.]+)"', svg)
    assert float(width) > 400


def test_programs_are_told_hosts_moves_and_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = three_hosts(tmp_path / "run")
    assert call(report, str(path), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["host"] for one in found["hosts"]] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert [(move["batch"], move["why"], move["handed_over"]) for move in found["moves"]] == [
        (5, "somebody asked", True),
        (12, LATE, False),
    ]
    assert found["waits"] == [waited(batch=12, host="10.0.0.3", seconds=30.0, came_back=False).as_json()]


@pytest.mark.parametrize("width", [400, 1100])
def test_bands_can_be_seen_and_hidden_in_a_browser(tmp_path: Path, width: int) -> None:
    steps = """
    const chart = [...document.querySelectorAll("svg.chart")].find(each => each.querySelector(".sign"));
    const band = chart.querySelector('.series[data-series="0"] rect');
    const drawn = () => band.getBoundingClientRect().width > 0 && getComputedStyle(band.parentNode).display !== "none";
    seen.drawn = [drawn()];
    chart.querySelector(".entry").dispatchEvent(new MouseEvent("click", {bubbles: true}));
    seen.drawn.push(drawn());
    const fills = [...chart.querySelectorAll(".series rect")].map(each => getComputedStyle(each).fill);
    seen.colours = new Set(fills).size;
    const box = chart.getBoundingClientRect();
    const places = [...chart.querySelectorAll("rect, text, path")].map(each => each.getBoundingClientRect());
    seen.outside = places.filter(each => each.right > box.right + 1 || each.bottom > box.bottom + 1).length;
    seen.width = [document.documentElement.scrollWidth, document.documentElement.clientWidth];
    """
    found = seen_in_browser(report_page(three_hosts(tmp_path / "run")), steps, folder=tmp_path, width=width)
    assert found["drawn"] == [True, False]
    assert (found["colours"], found["outside"]) == (3, 0)
    whole, visible = found["width"]
    assert whole <= visible
