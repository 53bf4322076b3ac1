"""The rows of a growing log state what `import` concludes from the whole log, and nothing else; memory is bounded."""

from __future__ import annotations

import gc
import re
import tracemalloc

import pytest

from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.logical_lines import WRAPPED
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.report.first_lines import facts_first
from cachesim.tools.server_logs.report.headline import headline
from cachesim.tools.watch import log_rows
from cachesim.tools.watch.log_rows import LogRows
from cachesim.tools.watch.watched_exchange import CLIENT_LEFT, UNREAD, WHOLE
from tests.shared import ROOT

LOGS = ROOT / "tests/unit/tools/server_logs"
NUMBERS = {"n_tokens": "prompt", "cache_n": "reused", "prompt_n": "evaluated", "predicted_n": "generated",
           "lost": "again"}  # fmt: skip


def lines_of(name):
    return (LOGS / name).read_text().splitlines()


def rows_of(lines, idle_after=()):
    watched, rows = LogRows(), []
    for number, line in enumerate(lines):
        rows += watched.read([line])
        rows += watched.idle() if number in idle_after else ()
    return watched, [*rows, *watched.idle()]


@pytest.mark.parametrize("name", ["verbosity_4.log", "default_verbosity.log", "parallel_slots.log", "dated_turns.log"])
def test_a_row_states_what_import_concludes(name):
    lines = lines_of(name)
    watched, rows = rows_of(lines)
    said = conclude(read_session(watched.engine, grammars()[watched.engine], lines)).statements
    assert watched.engine == "llama_cpp" and rows
    for row in rows:
        own = [one for one in said if (one.slot, one.task) == (row["slot"], row["task"])]
        for one in (one for one in own if one.what == "request"):
            [(number, value)] = one.numbers.items()
            assert number not in NUMBERS or row[NUMBERS[number]] == value
        causes = [one.says for one in own if one.what == "cause" and one.numbers["cause"] != "server-warning"]
        assert sorted(one["says"] for one in row["causes"]) == sorted(causes)


def test_a_row_appears_when_the_log_is_quiet_or_a_few_lines_later():
    lines = lines_of("verbosity_4.log")
    end = next(number for number, line in enumerate(lines) if "release" in line)
    watched = LogRows()
    assert not [row for line in lines[: end + 1] for row in watched.read([line])]
    [row] = watched.idle()
    assert (row["slot"], row["task"], row["prompt"]) == (1, 0, 120)
    assert rows_of(lines, idle_after=range(len(lines)))[1] == rows_of(lines)[1]


def test_the_rows_name_flags_and_advice():
    _, rows = rows_of(lines_of("verbosity_4.log"))
    assert rows[1]["change"] == "turn end" and "reasoning" in rows[1]["advice"]
    assert rows[3]["flags"] == ["-ctxcp", "-cms"]              # the log states n_swa = 0


def test_a_server_that_logs_no_single_request_has_totals():
    watched, rows = rows_of(lines_of("vllm.log"))
    assert rows == [] and any("hit rate" in said for said in watched.totals())
    one, two = ([f"[{source}] {line}" for line in lines_of("vllm.log")] for source in (41000, 42000))
    assert rows_of(one + two)[0].totals() == watched.totals(), "those of the current run"


def test_a_short_excerpt_proves_less_and_nothing_else(monkeypatch):
    lines = lines_of("verbosity_4.log")
    _, whole = rows_of(lines)
    monkeypatch.setattr(log_rows, "EXCERPT", 12)
    _, short = rows_of(lines)
    for row, longer in zip(short, whole, strict=True):
        assert all(row[name] in (None, longer[name]) for name in ("prompt", "evaluated"))
        assert {one["cause"] for one in row["causes"]} <= {one["cause"] for one in longer["causes"]}


@pytest.mark.parametrize("name", ["verbosity_4.log", "default_verbosity.log", "dated_turns.log"])
def test_the_end_begins_with_what_import_says_first(name):
    lines = lines_of(name)
    watched, _ = rows_of(lines)
    said = conclude(read_session(watched.engine, grammars()[watched.engine], lines)).statements
    statements = [one.as_data() for one in said]
    expected = [headline(statements).plain, *(line.says for line in facts_first(statements))]
    assert watched.first_lines() == expected and len(expected) > 1


def test_the_end_names_the_lines_that_it_is_about(monkeypatch):
    monkeypatch.setattr(log_rows, "EXCERPT", 40)
    watched, _ = rows_of(lines_of("verbosity_4.log"))
    first, *others = watched.first_lines()
    assert others and [40 <= int(number) <= 80 for number in re.findall(r"\d+", first)] == [True]


def test_the_end_without_a_known_line_says_nothing():
    assert LogRows().first_lines() == []


LAUNCH = "0.0{}.000.000 I slot launch_slot_: id  0 | task {} | processing task, is_child = 0"
RELEASE = "0.0{}.000.000 I slot      release: id  0 | task {} | stop processing: n_tokens = 90, truncated = 0"
CANCEL = "0.0{}.000.000 W srv          stop: cancel task, id_task = {}"


def ends_of(lines):
    watched = LogRows()
    rows = [*watched.read(lines), *watched.rest()]
    return [(row["task"], row["end"]) for row in rows]


def test_every_request_of_a_log_has_a_row_also_one_that_is_not_over():
    lines = [LAUNCH.format(1, 5), RELEASE.format(2, 5), LAUNCH.format(3, 8), CANCEL.format(4, 8), RELEASE.format(5, 8),
             LAUNCH.format(6, 9)]  # fmt: skip
    assert ends_of(lines) == [(5, WHOLE), (8, CLIENT_LEFT), (9, UNREAD)]
    assert ends_of(lines[:1]) == [(5, UNREAD)]


def test_the_rows_of_a_run_come_before_those_of_the_next():
    lines = lines_of("verbosity_4.log")
    watched = LogRows()
    rows = [*watched.read([*lines, *lines]), *watched.rest()]
    assert [row["run"] for row in rows] == [0] * 7 + [1] * 7


NEW = "0.02.000.000 I slot {}: id  0 | task 5 | n_tokens = 0, memory_seq_rm [0, end)"


@pytest.mark.parametrize(("names", "reused"), [
    (["operator()", "operator()"], 0), (["operator()", "update_slots"], None)])
def test_a_request_with_lines_of_two_builds_has_no_numbers(names, reused):
    watched = LogRows()
    lines = [LAUNCH.format(1, 5), *(NEW.format(name) for name in names), RELEASE.format(3, 5)]
    [row] = [*watched.read(lines), *watched.rest()]
    assert (row["task"], row["reused"]) == (5, reused)


def test_requests_of_a_server_that_names_no_slot_have_rows():
    lines = [f"Prompt {said}" for number in (5, 9)
             for said in ("Cache: 1 sequences, 0.00 GB", f"processing progress: {number}/{number}")]  # fmt: skip
    watched = LogRows()
    rows = [*watched.read(lines), *watched.rest()]
    assert watched.engine == "mlx_lm" and [(row["slot"], row["evaluated"], row["lines"]) for row in rows] == [
        (None, 5, [1, 2]), (None, 9, [3, 4])]  # fmt: skip


def test_requests_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr(log_rows, "WAITING", 3)
    watched = LogRows()
    list(watched.read([RELEASE.format(1, 1)]))
    lines = [f"0.01.000.000 I slot launch_slot_: id {slot:>2} | task {slot + 2} | processing task, is_child = 0"
             for slot in range(9)]  # fmt: skip
    rows = []
    for line in lines:
        rows += [row["task"] for row in watched.read([line])]
    assert rows == [1, 2, 3] and [row["task"] for row in watched.rest()] == [4, 5, 6, 7, 8, 9, 10]


def test_each_request_of_an_earlier_run_has_a_row(monkeypatch):
    monkeypatch.setattr(log_rows, "RUNS", 2)
    monkeypatch.setattr(log_rows, "SOURCES", 2)
    watched = LogRows()
    lines = [f"[4100{source}] {line}" for source in range(4)
             for line in (LAUNCH.format(1, source), RELEASE.format(2, source))]  # fmt: skip
    rows = [row["task"] for line in lines for row in watched.read([line])]
    rows += [row["task"] for row in watched.rest()]
    assert rows == [0, 1, 2, 3]


@pytest.mark.parametrize(("name", "number", "said"), [
    ("parallel_slots.log", 2, ("extends", "extends what the slot holds", "")),
    ("default_verbosity.log", 2, ("", "", "")),
])  # fmt: skip
def test_a_change_without_advice_has_none(name, number, said):
    row = rows_of(lines_of(name))[1][number]
    assert (row["change"], row["says"], row["advice"]) == said


IDLE = "0.02.000.000 I srv  update_slots: all slots are idle"


def test_a_request_has_its_row_when_12_lines_came_after_its_last_one():
    """The messages of the last lines are not read yet, because later lines may continue them."""
    watched = LogRows()
    lines = [LAUNCH.format(1, 5), *[IDLE] * 20, RELEASE.format(2, 5), *[IDLE] * 20]
    shown = [(number, row["task"]) for number, line in enumerate(lines, 1) for row in watched.read([line])]
    assert shown == [(22 + log_rows.LATE + 1 + WRAPPED, 5)]


def test_the_engine_is_known_after_the_first_line_that_ends_a_request():
    watched, engines = LogRows(), []
    for line in (LAUNCH.format(1, 5), "a line of no server", RELEASE.format(2, 5), LAUNCH.format(3, 6)):
        assert list(watched.read([line])) == []
        engines.append(watched.engine)
    assert engines == ["", "", "llama_cpp", "llama_cpp"]


def test_timings_below_a_heading_are_those_of_its_request():
    lines = [RELEASE.format(1, 4), LAUNCH.format(1, 5), "0.01.000.000 I slot print_timing: id  0 | task 5 |",
             "prompt eval time =     900.00 ms /    74 tokens (    2.22 ms per token,   449.76 tokens per second)",
             "       eval time =       9.00 ms /     5 tokens (   26.90 ms per token,    37.18 tokens per second)",
             "      total time =     909.00 ms /    79 tokens", RELEASE.format(2, 5)]  # fmt: skip
    watched = LogRows()
    rows = [*watched.read(lines), *watched.rest()]
    assert [(row["task"], row["evaluated"], row["generated"]) for row in rows] == [(4, None, None), (5, 74, 5)]


def test_the_common_prefix_of_the_only_request_is_adopted_at_the_end():
    """A log of ik_llama.cpp with a line of no server between the launch and the prefix, which names no slot."""
    fields = "id_slot=0 id_task=5"
    lines = [f"INFO [ launch_slot_with_task] slot is processing task | {fields}", "a line of no server",
             "======== Cache: cache_size = 60, n_past = 40, n_past_prompt = 41",
             f"INFO [ batch_pending_prompt] kv cache rm [p0, end) | {fields} p0=40"]  # fmt: skip
    watched = LogRows()
    [row] = [*watched.read(lines), *watched.rest()]
    assert (row["task"], row["reused"], row["again"], row["end"]) == (5, 40, 0, UNREAD)


def test_a_request_after_lines_that_belong_to_none_has_its_row():
    """Two lines of ik_llama.cpp name no slot, and no request is launched before them."""
    cache = "======== Cache: cache_size = 60, n_past = 40, n_past_prompt = 41"
    first, second = ([f"INFO [ launch_slot_with_task] slot is processing task | id_slot=0 id_task={task}",
                      f"INFO [ batch_pending_prompt] kv cache rm [p0, end) | id_slot=0 id_task={task} p0={task}"]
                     for task in (5, 6))  # fmt: skip
    watched = LogRows()
    rows = [*watched.read([*first, cache, cache, *second]), *watched.rest()]
    assert [(row["task"], row["reused"], row["lines"]) for row in rows] == [(5, 5, [1, 2]), (6, 6, [5, 6])]


def test_a_request_has_its_row_when_12_lines_of_another_server_came_after_the_last_one_of_its_own():
    watched = LogRows()
    first, second = ([f"[{source}] {line}" for line in (LAUNCH.format(1, 5), RELEASE.format(2, 5), IDLE)]
                     for source in (41000, 42000))  # fmt: skip
    lines = [first[0], *[first[2]] * 18, first[1], *[second[2]] * 30]
    shown = [(number, row["task"]) for number, line in enumerate(lines, 1) for row in watched.read([line])]
    assert shown == [(20 + log_rows.LATE + 1 + WRAPPED, 5)]


ENTRY = "0.01.000.000 I srv   update:    - prompt 0x556dd81adb60:      93 tokens, checkpoints:  2,     0.122 MiB"
GROWING = {
    "requests of a run": [line for line in lines_of("verbosity_4.log") if "slot" in line or "srv" in line],
    "runs of several servers": [f"[{number}] {line}" for number in range(8)
                                for line in (LAUNCH.format(1, 5), RELEASE.format(2, 5))],
    "lines of no server": [f"line {number} of no server" for number in range(40)],
    "lists of the prompt cache": [LAUNCH.format(1, 5), *[ENTRY] * 40, RELEASE.format(2, 5)],
}  # fmt: skip


@pytest.mark.parametrize("kind", GROWING)
def test_memory_is_bounded(kind, monkeypatch):
    for name, limit in {"EXCERPT": 60, "RUNS": 2, "SOURCES": 2, "WAITING": 3, "HEAD": 4}.items():
        monkeypatch.setattr(log_rows, name, limit)
    watched, sizes = LogRows(), []
    gc.freeze()                                      # what earlier tests left is not looked through
    tracemalloc.start()
    for _ in range(5):
        for line in GROWING[kind]:
            for row in watched.read([f" {line}"[1:]]):           # a copy, whose memory is traced
                del row
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] < 2 * sizes[2] + 30_000
