"""Tests of the table: lines merge, existing cells are not run again, the page marks missing features of engines."""

import json
from pathlib import Path

import pytest

from tests.workloads.cells import arguments, play_left, read_lines
from tests.workloads.grid import RULE_SETS, SETTINGS, columns
from tests.workloads.page import Results, evaluated, losses, page, wrong
from tests.workloads.shared import Shared

DATA = Path(__file__).parent / "data"


def play(out, *more):
    play_left(arguments("test").parse_args([str(DATA), "--out", str(out), "--rules", "latest", "--rules", "mlx 0.32.2",
                                            "--kinds", "hybrid", *more]))  # fmt: skip


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    out = tmp_path_factory.mktemp("workloads") / "lines.jsonl"
    play(out, "--how", "judged", "--settings", "default")
    play(out, "--how", "counted", "--settings", "default", "--settings", "ctx-checkpoints 8")
    return out


def test_a_cell_that_is_there_is_not_played_again(lines):
    text = lines.read_text()
    assert len(text.splitlines()) == 6
    play(lines, "--how", "counted", "--settings", "default")
    assert lines.read_text() == text


def test_a_closer_look_takes_the_place_of_another_and_a_torn_line_is_none(lines, tmp_path):
    one = json.loads(lines.read_text().splitlines()[0])
    out = tmp_path / "lines.jsonl"
    closer = {**one, "how": "billed", "lost": {"evicted": 64}, "unlimited": None}
    out.write_text("\n".join(json.dumps(x) for x in (one, closer, {**one, "how": "counted"})) + "\n" + '{"session": "x')
    (found,) = read_lines(out).values()
    assert (found["lost"], found["unlimited"]) == ({"evicted": 64}, one["unlimited"])


def test_the_page_says_what_is_missing(lines):
    results = Results(read_lines(lines).values())
    text = evaluated(results, "hybrid")
    assert len(text.splitlines()) == 2 + len(RULE_SETS)
    assert "n/a" in text and "not run" in text
    assert "0 in 2 sessions" in wrong(results) and "not judged" in wrong(results)
    assert losses(results, "hybrid") == "Causes were not computed.\n"


def test_a_page_has_every_part(lines):
    every = list(read_lines(lines).values())
    agreed = {"session": "s", "profile": "p", "requests": 3, "agents": 1, "together": 1, "unscaled": 100, "scaled": 101,
              "same": 3}  # fmt: skip
    text = page(Results(every), [{**every[0], "scale": 1}], every, [agreed])
    assert "+1.00 %" in text and "## Unscaled" in text


def test_sessions_that_share_a_server_have_tables_of_their_own(tmp_path):
    play(out := tmp_path / "lines.jsonl", "--how", "judged", "--shared", "--together", "2", "--settings", "default",
         "--settings", "-np 1")  # fmt: skip
    lines = list(read_lines(out).values())
    assert [(one["rules"], one["setting"], one["session"], one["sessions"]) for one in lines] == [
        ("latest", "default", "agents+chat", 2), ("mlx 0.32.2", "default", "agents+chat", 2),
        ("latest", "-np 1", "agents+chat", 2),
    ]  # fmt: skip
    found = Shared(lines)
    assert found.fact("latest", "-np 1", lambda one: str(one["requests"])) == "12"
    assert found.fact("b10587", "-np 2", str) == "-"
    text = page(Results([]), [], [], [], [], lines)
    assert "2 sessions on 1 server, 12 requests" in text and "not run" in text and "| n/a |" in text


def test_settings_that_an_engine_lacks_are_no_cells():
    found = {(one.rules, one.setting) for one in columns()}
    assert ("ik main", "checkpoint-min-step 0") not in found and ("mlx 0.32.2", "cache-ram 0") not in found
    assert {("latest", setting) for setting in (*SETTINGS, "ctx-checkpoints 0")} <= found
