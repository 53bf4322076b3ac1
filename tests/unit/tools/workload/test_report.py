"""Tests of the workload report."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.tools.workload.report import _share, _table, merged_report, workload_data, workload_report
from tests.unit.tools.table_columns import columns

LINE = {"profile": "llama_cpp@b10587", "model": "m", "layers": "GA", "scale": 1, "session": "s", "form": "f",
        "sessions": 1, "agents": 0, "servers": 1, "requests": 3, "answered": 3, "refused": 0, "died": 0,
        "prompt": 1000, "evaluated": 400, "kept": 300, "restored": 200, "loaded": 100, "generated": 9, "least": 250,
        "peak_checkpoints": 12.4, "peak_cache": 0.0, "wrong": None, "undecided": None, "predicted": 0, "lost": None,
        "unlimited": None, "given": {}, "flags": {}, "scaled": {}, "how": "counted"}  # fmt: skip


def said(*totals):
    """Return the lines of a report."""
    lines = [{**LINE, **one} for one in totals]
    return [line.rstrip() for line in as_text(*workload_report(workload_data(lines, lines))).splitlines()]


@pytest.mark.parametrize(("wrong", "cell"), [(None, "-"), (0, "0"), (2, "2")])
def test_a_row_has_every_number_and_a_dash_without_judging(wrong, cell):
    (row,) = (line for line in said({"wrong": wrong}) if line.startswith("llama_cpp@b10587 "))
    assert row.split() == ["llama_cpp@b10587", "400", "40.0", "300", "200", "100", cell, "12", "0"]


def test_many_tokens_are_told_in_thousands_and_millions():
    (row,) = (line for line in said({"prompt": 40_000_000, "evaluated": 12_345_678, "kept": 100_000, "loaded": 99_999,
                                     "restored": 9_999_999}) if line.startswith("llama_cpp@b10587 "))  # fmt: skip
    assert row.split()[1:6] == ["12.3M", "30.9", "100k", "10,000k", "99,999"]


@pytest.mark.parametrize(("more", "head"), [
    ({}, "1 session, 3 requests, 1,000 prompt tokens"), ({"sessions": 2, "servers": 2}, "2 sessions, 3 requests, "),
    ({"sessions": 2, "agents": 4}, "2 sessions on 1 server, 3 requests, 4 sub-agents, 1,000 prompt tokens"),
])
def test_the_header_counts_what_was_played(more, head):
    assert said(more)[0].startswith(head)


def test_only_a_scaled_workload_says_its_scale():
    assert not any("scale" in line for line in said({}))
    text = " ".join(said({"scale": 2, "scaled": {"ctx_size": (512, 256)}}))
    assert "scale 2: 2 recorded tokens are simulated as 1 and counted as 2" in text
    assert "llama_cpp@b10587 scaled: ctx_size 512>256" in text


def test_bounds_and_causes_are_told_where_they_are_known():
    text = said({"unlimited": 300, "lost": {"evicted": 120, "not chosen": 30}}, {"profile": "mlx_lm@d78bf58e"})
    assert "at least 250 (25.0 %) under any rules; 1,000 with nothing kept" in text
    assert "llama_cpp@b10587 with unlimited memory: 300 (30.0 %)" in text
    assert "llama_cpp@b10587 re-evaluated: evicted 120, not chosen 30" in text
    assert len([line for line in text if "unlimited" in line or "re-evaluated" in line]) == 2


def test_requests_without_an_answer_and_predicted_faults_are_told():
    text = said({"refused": 1, "wrong": 2, "predicted": 1}, {"profile": "mlx_lm@d78bf58e", "died": 2})
    assert "llama_cpp@b10587: 1 of 3 requests refused" in text
    assert "mlx_lm@d78bf58e: 2 of 3 requests after the server had died" in text
    assert any(line.startswith("llama_cpp@b10587: 1 of 2 wrong answers ") for line in text)
    assert not any("refused" in line or "predicted" in line for line in said({"wrong": 2}))


def test_a_merged_workload_says_what_is_missing():
    def head(jobs, files):
        data = workload_data([LINE], [LINE]) | {"jobs": jobs, "files": files}
        return as_text(*merged_report(data)).splitlines()[0].rstrip()

    assert head(3, ["a", "b"]) == "2 files, 1 of 3 jobs; not run: 2" and head(1, ["a"]) == "1 file, 1 of 1 job"


def test_options_are_data_as_they_are_typed():
    (line,) = workload_data([{**LINE, "given": {"kv_unified": True, "parallel": 2}}], [])["lines"]
    assert line["set"] == ["kv_unified=true", "parallel=2"] and not {"given", "flags", "how"} & line.keys()


def test_numbers_are_aligned_and_rule_sets_are_never_wrapped():
    table = _table([])
    assert columns(table) == [("rule set", "whole"), *((name, "number") for name in (
        "evaluated", "%", "kept", "restored", "loaded", "wrong", "MiB ckpt", "MiB pc"))]  # fmt: skip
    assert (table.padding, table.pad_edge) == ((0, 1, 0, 0), False)


def test_only_wrong_answers_are_red():
    totals = [{**LINE, "wrong": wrong} for wrong in (None, 0, 2)]
    wrong = next(column for column in _table(totals).columns if column.header == "wrong")
    assert [(text.plain, text.style) for text in wrong.cells] == [("-", ""), ("0", ""), ("2", "red")]


@pytest.mark.parametrize(("n", "whole", "share"), [(0, 0, "0.0"), (1, 3, "33.3"), (3, 3, "100.0"), (0, 3, "0.0")])
def test_a_share_is_in_percent_and_that_of_nothing_is_0(n, whole, share):
    assert _share(n, whole) == share


@pytest.mark.parametrize(("profile", "lines"), [
    ("llama_cpp@1234567890", ["llama_cpp@1234567890"]), ("llama_cpp@12345678901", ["llama_cpp@", "12345678901"])])
def test_a_name_of_more_than_20_characters_takes_two_lines(profile, lines):
    shown = [line.split()[0] for line in said({"profile": profile}) if line.strip()]
    assert all(line in shown for line in lines) and (profile in shown) is (len(lines) == 1)
