"""Tests of the workload report."""

from __future__ import annotations

import re

import pytest

from cachesim.base.console import as_text
from cachesim.tools.workload.report import merged_report, workload_data, workload_report

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


def test_a_workload_without_prompts_has_shares_of_0():
    (row,) = (line for line in said({"prompt": 0, "evaluated": 0}) if line.startswith("llama_cpp@b10587 "))
    assert row.split()[1:3] == ["0", "0.0"]


@pytest.mark.parametrize(("more", "numbers"), [
    ({}, ["1", "3", "1,000"]), ({"sessions": 2, "servers": 2}, ["2", "3", "1,000"]),
    ({"sessions": 2, "agents": 4}, ["2", "1", "3", "4", "1,000"]),
])  # fmt: skip
def test_the_header_counts_what_was_played(more, numbers):
    """Sessions, servers that several of them use, requests, sub-agents, prompt tokens."""
    assert re.findall(r"[\d,]*\d", said(more)[0]) == numbers


def test_only_a_scaled_workload_says_its_scale():
    assert len(said({"scale": 2, "scaled": {"ctx_size": (512, 256)}})) == len(said({})) + 2
    assert any("ctx_size" in line and "512" in line and "256" in line
               for line in said({"scale": 2, "scaled": {"ctx_size": (512, 256)}}))  # fmt: skip


def test_bounds_and_causes_are_told_where_they_are_known():
    more, other = {"unlimited": 300, "lost": {"evicted": 120, "not chosen": 30}}, {"profile": "mlx_lm@d78bf58e"}
    text, plain = said(more, other), said({}, other)
    added = [line for line in text if line not in plain]
    assert len(added) == 2 and "300 (30.0 %)" in added[0] and "evicted 120, not chosen 30" in added[1]
    assert any("250 (25.0 %)" in line for line in plain)


@pytest.mark.parametrize(("more", "shown"), [
    ({"refused": 1, "answered": 2}, ["1", "3"]), ({"died": 2, "answered": 1}, ["2", "3"]),
    ({"answered": 1}, ["2", "3"]), ({"wrong": 2, "predicted": 1}, ["1", "2"]),
])  # fmt: skip
def test_requests_without_an_answer_and_predicted_faults_are_told(more, shown):
    (line,) = (line for line in said(more) if line.startswith("llama_cpp@b10587:"))
    assert re.findall(r"\d+", line.partition(":")[2])[:2] == shown
    assert not any(line.startswith("llama_cpp@b10587:") for line in said({"wrong": 2}))


def test_a_merged_workload_says_what_is_missing():
    def head(jobs, files):
        data = workload_data([LINE], [LINE]) | {"jobs": jobs, "files": files}
        return as_text(*merged_report(data)).splitlines()[0].rstrip()

    assert re.findall(r"\d", head(3, ["a", "b"])) == ["2", "1", "3", "2"]
    assert re.findall(r"\d", head(1, ["a"])) == ["1", "1", "1"]


def test_options_are_data_as_they_are_typed():
    (line,) = workload_data([{**LINE, "given": {"kv_unified": True, "parallel": 2}}], [])["lines"]
    assert line["set"] == ["kv_unified=true", "parallel=2"] and not {"given", "flags", "how"} & line.keys()


@pytest.mark.parametrize(("profile", "lines"), [
    ("llama_cpp@1234567890", ["llama_cpp@1234567890"]), ("llama_cpp@12345678901", ["llama_cpp@", "12345678901"])])
def test_a_name_of_more_than_20_characters_takes_two_lines(profile, lines):
    shown = [line.split()[0] for line in said({"profile": profile}) if line.strip()]
    assert all(line in shown for line in lines) and (profile in shown) is (len(lines) == 1)
