"""What is read from the log of a simulated server is what the server counted, in any excerpt of the log.

The log of a drawn conversation is cut as people cut theirs: its end, its middle, the lines that contain some words, the
lines that contain none of them. Every number that is stated about a request must be the server's, or a range that holds
it; a number that the excerpt does not determine must be left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.engines.shared.slot_events import PcLoad
from cachesim.events import Launch
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.load import load_text
from cachesim.tools.search.drawn_conversation import draw_conversation
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.lines.recognise import grammars
from tests.replay.run_log import ik_log_of, log_of

PROFILE = "llama_cpp@b11549"
PROFILES = {"llama_cpp": PROFILE, "ik_llama": "ik_llama@2491"}
"""Rule sets whose logs the tests can write."""
EXAMPLES = pytest.mark.parametrize("examples", [5, pytest.param(40, marks=pytest.mark.long)])
WORDS = (
    "selected slot", "launch_slot_", "prompt eval", "  eval time", "total time", "stop processing", "new prompt",
    "cached", "checkpoint", "prompt cache", "srv ", "operator()", "n_tokens", "prompt processing", "erased", "restored",
    "slot is processing", "slot released", "Cache:", "kv cache rm", "n_past", "print_timing",
)  # fmt: skip
"""Words by which lines are kept or dropped."""
seeds = st.integers(0, 2**32)


@st.composite
def cuts(draw):
    """Draw how lines are cut: the share of lines before and after the excerpt, words, and whether a line with one of
    them is kept or dropped."""
    first, last = sorted([draw(st.integers(0, 100)), draw(st.integers(0, 100))])
    words = draw(st.lists(st.sampled_from(WORDS), max_size=3, unique=True))
    return first, last, words, draw(st.booleans())


def cut(lines: list[str], how: tuple[int, int, list[str], bool]) -> list[str]:
    """Return an excerpt of a log."""
    first, last, words, kept = how
    part = lines[len(lines) * first // 100 : len(lines) * last // 100 + 1]
    return [line for line in part if not words or any(word in line for word in words) == kept]


def drawn_run(seed: int, engine: str = "llama_cpp") -> Run:
    """Return the run of a drawn conversation without actions, further completions, errors, and prompts that the server
    shortened. ik_llama.cpp has a single slot, whose requests follow each other."""
    is_single = engine == "ik_llama"
    try:
        drawn = draw_conversation(seed, engine, ("parallel=1",) * is_single).scenario(PROFILES[engine])
        steps = [step for step in drawn.steps if step.action is None and step.request.n_cmpl == 1]
        steps = [step for step in steps if not (is_single and step.together)]
        run = run_judged(replace(drawn, steps=steps), PROFILES[engine], "provenance")
    except BadInput:
        assume(False)
    assume(run.launches and not any(one.answer.error for one in run.requests))
    assume(not (is_single and any(one.answer.truncated for one in run.requests)))
    return run


def one_after_another(seed: int) -> Run:
    """Return the run of a drawn conversation whose clients wait for the answer before."""
    run = drawn_run(seed)
    assume(not any(step.together for step in run.scenario.steps))
    assume(not any(one.answer.cancelled for one in run.requests))
    return run


def counted(run: Run) -> dict[int | None, dict[str, int]]:
    """Return what the server counted for each task, in tokens. The answer of a client that hung up is not known. What
    the slot held is left out if a conversation was loaded into it, after the choice that the log describes."""
    found = dict[int | None, dict[str, int]]()
    before = 0
    for launch in run.launches:
        event, request = run.log.events[launch.place], run.requests[launch.request]
        assert isinstance(event, Launch)
        answer, at_launch = request.answer, request.slot
        numbers = {"slot": launch.slot, "n_tokens": len(request.request.prompt)}
        if not answer.cancelled:
            numbers |= {"cache_n": answer.cache_n, "prompt_n": answer.prompt_n, "predicted_n": answer.predicted_n}
        is_loaded = any(isinstance(event, PcLoad) for event in run.log.events[before : launch.place])
        if at_launch is not None and not is_loaded:
            numbers |= {"held": at_launch.held, "lcp": at_launch.lcp}
        found[event.task] = numbers
        before = launch.place
    return found


def holds(logged: LoggedRequest, name: str, number: int) -> bool:
    """True if what is stated about a number of a request holds."""
    if name == "slot":
        return logged.slot == number or not logged.is_slot_known
    exact, proven = getattr(logged, name), logged.numbers.get(name)
    is_in_range = proven is None or (proven.low <= number and (proven.high is None or number <= proven.high))
    return exact in (None, number) and is_in_range


@EXAMPLES
@pytest.mark.parametrize("engine", PROFILES)
def test_numbers_of_an_excerpt_are_those_of_the_server(engine, examples):
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.filter_too_much])
    @given(seeds, st.sampled_from([3, 4]), st.lists(cuts(), min_size=8, max_size=8))
    def is_true(seed, verbosity, excerpts):
        run = drawn_run(seed, engine)
        lines = ik_log_of(run) if engine == "ik_llama" else log_of(run, verbosity)
        known = counted(run)
        for part in (lines, *(cut(lines, how) for how in excerpts)):
            for logged in read_session(engine, grammars()[engine], part).requests:
                for name, number in (known[logged.task] if logged.task is not None else {}).items():
                    assert holds(logged, name, number), (name, number, logged)

    is_true()


@EXAMPLES
def test_an_imported_log_reuses_what_the_server_reused(tmp_path, examples):
    """The log has all lines of verbosity 4; model and options are given, as by a pasted command line. The scenario that
    is written has the numbers that the import states, and the slots that the requests named."""
    counts = Counter[str]()

    @settings(max_examples=max(6, examples // 4), suppress_health_check=[HealthCheck.filter_too_much])
    @given(seeds)
    def agrees(seed):
        run = one_after_another(seed)
        file = tmp_path / "server.log"
        file.write_text("\n".join(log_of(run, 4)), "utf-8")
        data, toml = import_log(file, [PROFILE], model=run.scenario.model, server=run.scenario.server)
        again = run_judged(load_text(toml, [PROFILE]), PROFILE, "provenance")
        for row, judged, original in zip(data["requests"], again.requests, run.requests, strict=True):
            counts[str(row["agrees"])] += 1
            assert row["simulated"] == judged.answer.cache_n and row["cache_n"] == original.answer.cache_n
            assert row["agrees"] == (judged.answer.cache_n == original.answer.cache_n)
            assert judged.answer.id_slot == original.answer.id_slot
            assert judged.request.id_slot in (original.request.id_slot, original.answer.id_slot)
        assert data["differ"] == 0 or "Not reproduced" in toml

    agrees()
    assert counts["True"] > 20 and counts["True"] >= 99 * counts["False"], counts
