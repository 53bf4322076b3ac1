"""Facts about a server from lines of its log: the first that prints a number counts."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.recognise import grammars

NEW = "slot   operator(): id  0 | task 7 | new prompt, n_ctx_slot = {}, n_keep = 0, task.n_tokens = {}"
CHOICE = ("slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, sim_best = 0.8 (> {} thold), "
          "f_keep = 0.9")  # fmt: skip
CACHE = "srv    load_model: prompt cache is enabled, size limit: {} MiB"


def session(*lines):
    return read_session("llama_cpp", grammars()["llama_cpp"], lines)


def test_the_first_line_with_a_number_counts():
    facts = session(CACHE.format(512), CACHE.format(1024), NEW.format(2048, 10), NEW.format(4096, 20)).facts
    assert facts["limit_mib"] == 512 and 2048 in facts.values() and 4096 not in facts.values()


@pytest.mark.parametrize("share, known", [("0.100", 0.1), ("0", 0.0), ("1.000", 1.0), ("1.5", None), ("nan", None)])
def test_a_threshold_is_a_share(share, known):
    assert session(CHOICE.format(share)).facts.get("similarity") == known


def test_the_run_with_the_most_requests_is_the_main_one():
    start = "main: build = 11549 (abcdef12)"
    launch = "slot launch_slot_: id  0 | task {} | processing task, is_child = 0"
    found = session(launch.format(1), "", "srv    load_model: initializing slots, n_slots = 1", launch.format(1),
                    launch.format(2), start)  # fmt: skip
    assert found.lines == 6 and found not in found.others
    assert len(found.requests) == max(len(run.requests) for run in (found, *found.others))


@pytest.mark.parametrize(("line", "facts"), [
    ("srv    load_model: prompt cache is enabled, size limit: no limit", {"limit_mib": -1}),
    ("srv    load_model: prompt cache is disabled - use `--cache-ram N` to enable it", {"limit_mib": 0}),
    ("srv    load_model: context checkpoints disabled", {"max": 0}),
    (CACHE.format(512), {"limit_mib": 512}),
    (NEW.format(2048, 10), {"n_ctx_slot": 2048}), (CHOICE.format("0.100"), {"similarity": 0.1}),
    ("slot create_check: id  0 | task 7 | created context checkpoint 2 of 8 (pos_min = 1, pos_max = 9, size = 1.0 MiB)",
     {"max": 8}),
    ("slot release: id  0 | task 7 | stop processing: n_tokens = 5, truncated = 0", {}),
])  # fmt: skip
def test_each_kind_of_line_has_its_facts(line, facts):
    found = session(line)
    assert (found.recognised, found.facts) == (1, facts)


def test_a_later_limit_is_not_that_of_the_server():
    off = "srv    load_model: prompt cache is disabled - use `--cache-ram N` to enable it"
    assert session(off, CACHE.format(512)).facts == {"limit_mib": 0}
    assert session(CACHE.format(512), off).facts == {"limit_mib": 512}
