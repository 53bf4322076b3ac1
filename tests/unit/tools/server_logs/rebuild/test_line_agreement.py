"""A simulated run that contradicts a printed number is rejected, and the report names the line."""

from __future__ import annotations

import re

import pytest

from cachesim import events as ev
from cachesim.base.limits import lift
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.import_log import rebuild_log
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.rebuild.line_agreement import (
    Contradiction,
    compared_kinds,
    contradictions,
    early_lines,
    events_by_task,
    printed_lines,
)
from cachesim.tools.server_logs.rebuild.settings_search import SearchSpace, solve
from tests.unit.tools.server_logs.simulated_log import PROFILE, dated_line, simulated_log

TURNS = "S300.|A240>a12/T700>t5/S.A[:100].|B100>b10/S.A[:100].B.b.|C70>c5"


def lines_of(*texts):
    """Return recognised lines of messages, numbered from 1."""
    return [ReadLine(number, ENGINES["llama_cpp"].log().read(text, 0, 7), text) for number, text in enumerate(texts, 1)]


def created(n, n_tokens):
    return f"created context checkpoint {n} of 32 (pos_min = {n_tokens - 1}, pos_max = {n_tokens - 1}, " \
           f"n_tokens = {n_tokens}, size = 50.0 MiB)"  # fmt: skip


def made(n, n_tokens):
    return slot_ev.CkptCreate(0, 7, n, 32, n_tokens - 1, n_tokens - 1, n_tokens, 0.1)


def test_lines_match_events_in_their_order_and_may_be_missing():
    events = [made(1, 100), made(2, 200), made(3, 300)]
    assert contradictions(lines_of(created(1, 100), created(3, 300)), events, {}) == []
    assert [found.line for found in contradictions(lines_of(created(3, 300), created(1, 100)), events, {})] == [2]
    assert [found.line for found in contradictions(lines_of(created(1, 100), created(1, 100)), events, {})] == [2]


class Compared(int):
    """Simulated number that counts how often a printed number is compared with it."""

    times = 0

    def __rsub__(self, printed):
        Compared.times += 1
        return printed - int(self)


def test_lines_without_an_event_are_not_compared_with_all_events():
    """A prompt that is evaluated in batches of one token has as many lines as tokens, and as many events."""
    many = 400
    events = [made(1, Compared(n_tokens)) for n_tokens in range(1, many)]
    Compared.times = 0
    lines = lines_of(*(created(1, 1_000_000 + number) for number in range(many)))
    assert len(contradictions(lines, events, {})) == many
    assert Compared.times <= many


def test_a_later_event_matches_by_all_numbers():
    """The events have equal numbers of the checkpoint; the second has the printed tokens."""
    events = [made(1, 90), made(1, 100), made(1, 110)]
    assert contradictions(lines_of(created(1, 100), created(1, 110)), events, {}) == []
    assert [one.line for one in contradictions(lines_of(created(1, 100), created(1, 90)), events, {})] == [2]


def test_any_number_agrees_with_a_simulated_text():
    """A server prints "-nan" for a share of nothing."""
    event = slot_ev.CkptCreate(0, 7, 1, 32, 99, 99, "-nan", 0.1)
    assert contradictions(lines_of(created(1, 100)), [event], {}) == []


def test_a_contradiction_names_the_numbers_that_differ():
    (found,) = contradictions(lines_of(created(1, 100)), [made(1, 90)], {})
    assert found == Contradiction(1, "ckpt_create", {"pos_min": 99, "pos_max": 99, "n_tokens": 100},
                                  {"pos_min": 89, "pos_max": 89, "n_tokens": 90})  # fmt: skip
    (found,) = contradictions(lines_of("forcing full prompt re-processing due to lack of cache data"), [made(1, 9)], {})
    assert (found.printed, found.simulated) == ({}, None)


def test_shares_are_rounded_and_sizes_unknown():
    chosen = lines_of("selected slot by LCP similarity, f_sim_best = 0.500 (> 0.100 thold), f_keep = 0.250")
    assert contradictions(chosen, [slot_ev.SlotByLcp(0, None, 0.501, 0.1, 0.25, 9)], {}) == []
    assert contradictions(chosen, [slot_ev.SlotByLcp(0, None, 0.502, 0.1, 0.25, 9)], {}) != []
    state = lines_of(" - cache state: 1 prompts, 80.0 MiB (limits: 8192.0 MiB, 32768 tokens, 99 est)")
    assert contradictions(state, [slot_ev.PcState(1, 2.0, 8192.0, 32768, 12345)], {}) == []
    assert contradictions(state, [slot_ev.PcState(2, 80.0, 8192.0, 32768, 99)], {}) != []


def test_events_before_a_launch_belong_to_it():
    found = events_by_task([
        slot_ev.SlotByLru(1, None), slot_ev.PcBegin(), ev.Launch(1, 8, 0), slot_ev.SlotByLru(0, None),
        ev.Launch(0, 7, 0), ev.Release(1, 8, 5, 0), ev.Launch(2, 9, 1), ev.Release(0, 7, 5, 0)])  # fmt: skip
    assert [[(event.ev, event.slot) for event in task if event.ev != "pc_begin"] for task in found] == [
        [("slot_by_lru", 0), ("launch", 0), ("release", 0)], [("slot_by_lru", 1), ("launch", 1), ("release", 1)]]


def imported(tmp_path, text):
    log = tmp_path / "server.log"
    log.write_text(text, "utf-8")
    return rebuild_log(log)


def test_a_simulated_log_is_not_rejected(tmp_path):
    found = imported(tmp_path, simulated_log(TURNS, verbosity=4))
    assert found.data["contradicted"] == [] and not found.data["rejected"] and found.data["summary"]["lost"] > 0
    assert sum(len(printed_lines(request.logged, "llama_cpp", True)) for request in found.found.requests) > 40


PLANTED = {
    "ckpt_create": r"(created context checkpoint 1 of 32 \(pos_min = )(\d+)",
    "ckpt_restore": r"(restored context checkpoint .*n_past = )(\d+)",
    "ckpt_invalidate": r"(erased invalidated context checkpoint .*n_tokens = )(\d+)",
    "pc_save": r"(saving prompt with length )(\d+)",
    "pc_state": r"(cache state: )(\d+)",
    "pc_entry": r"(prompt \w+: +)(\d+)",
    "slot_by_lcp": r"(f_sim_best = 0\.)(\d+)",
    "prompt_time": r"(prompt eval time = +\S+ ms / +)(\d+)",
    "release": r"(stop processing: n_tokens = )(\d+)",
}


@pytest.mark.part(3)
@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_number_rejects_the_run(tmp_path, kind):
    lift({"sought": 5_000})
    lines = simulated_log(TURNS, verbosity=4).splitlines()
    number = next(i for i, text in enumerate(lines) if re.search(PLANTED[kind], text))
    lines[number] = re.sub(PLANTED[kind], lambda found: f"{found[1]}{int(found[2]) + 3}", lines[number])
    data = imported(tmp_path, "\n".join(lines) + "\n").data
    assert data["rejected"] and (number + 1, kind) in [(row["line"], row["what"]) for row in data["contradicted"]]
    assert data["summary"]["causes"] == [] and data["turns"] == []


def test_the_prompt_cache_is_unknown_if_the_log_lacks_the_start(tmp_path):
    lift({"sought": 5_000})
    text = simulated_log(TURNS, verbosity=4)
    text = re.sub(PLANTED["pc_entry"], lambda found: f"{found[1]}{int(found[2]) + 3}", text)
    at = text.index("slot get_availabl")
    assert imported(tmp_path, text).data["rejected"] and not imported(tmp_path, text[at:]).data["rejected"]


def test_another_choice_of_the_slot_rejects_the_run(tmp_path):
    lift({"sought": 5_000})
    text = simulated_log(TURNS, verbosity=4)
    assert text.count("selected slot by LRU") == 3
    text = re.sub(r"selected slot by LCP similarity.*", "selected slot by LRU, t_last = 5", text)
    data = imported(tmp_path, text).data
    assert data["rejected"] and "slot_by_lru" in {row["what"] for row in data["contradicted"]}


def test_the_report_names_the_lines(tmp_path, capsys):
    text = simulated_log(TURNS, verbosity=4)
    number = next(i for i, line in enumerate(text.splitlines(), 1) if "cache state: " in line)
    (tmp_path / "server.log").write_text(re.sub(r"(cache state: )\d+", r"\g<1>7", text, count=1), "utf-8")
    out = tmp_path / "case.toml"
    main(["import", str(tmp_path / "server.log"), "-p", PROFILE, "--model", "GGGA", "-o", str(out)])
    said = " ".join(capsys.readouterr().out.split())
    assert "Not reproduced: no simulated run meets all printed numbers" in said and "most likely" not in said
    assert f"line {number}: pc_state prompts = 7; simulated: prompts = " in said and "no candidate meets it" in said
    assert "re-evaluated" not in said and "would have saved" not in said and "Client:" not in said
    assert f"Not reproduced: the simulation prints other numbers than the log ({number}" in out.read_text("utf-8")


def test_user_messages_are_found_by_their_checkpoints(tmp_path):
    found = imported(tmp_path, simulated_log(dated_line(8, False), verbosity=4))
    assert not found.data["rejected"]
    assert "user messages begin at 6,000" in found.data["requests"][0]["assumed"]
    assert [step.request.user_starts[0] for step in found.found.scenario.steps] == [6000] * 4


def test_settings_are_tried_until_the_printed_numbers_are_met(tmp_path):
    text = simulated_log("S900.A700>a40/T2000>t9", verbosity=4, ubatch_size=64)
    begin = next(i for i, line in enumerate(text.splitlines()) if "get_availabl" in line)
    found = imported(tmp_path, "\n".join(text.splitlines()[begin:]) + "\n").found
    assert not found.is_rejected and found.server["ubatch_size"] == 64 and found.candidates > 1


def test_a_line_that_a_candidate_meets_is_not_unmet(tmp_path):
    """The checkpoints are those of micro-batches of 64 tokens; no server prints the planted release."""
    text = simulated_log("S900.A700>a40/T2000>t9", verbosity=4, ubatch_size=64)
    log = imported(tmp_path, re.sub(r"(stop processing: n_tokens = )\d+", r"\g<1>7", text, count=1))
    session = LogSession("llama_cpp", [request.logged for request in log.found.requests])
    lines = printed_lines(session.requests[0], "llama_cpp", True)
    release = next(line.number for line in lines if line.kind == "release")
    for sizes in ((512, 64), (64, 512)):
        space = SearchSpace((PROFILE,), ("GGGA",), {"parallel": 1, "ctx_size": 32768}, {"ubatch_size": sizes}, {})
        found = solve(session, space, 10**7)
        assert found.is_rejected and found.unmet == {release} and found.server["ubatch_size"] == 64


def test_events_of_a_task_that_was_not_launched_are_dropped():
    launched = ev.Launch(0, 7, 0)
    assert events_by_task([made(1, 9), launched, made(2, 10)]) == [[launched, made(2, 10)]]


@pytest.mark.parametrize(("engine", "more"), [("llama_cpp", {"ckpt_create", "pc_load"}), ("ik_llama", set())])
def test_lines_with_numbers_of_the_cache_and_of_the_times_are_compared(engine, more):
    compared_kinds.cache_clear()
    found = compared_kinds(engine)
    assert {"release", "prompt_time", "in_cache", *more} <= found
    assert found.isdisjoint({"launch", "cancel", "warn", "error", "pc_begin", "idle_save", "prompt_truncated"})


@pytest.mark.parametrize(("end", "n_tokens", "is_early"), [
    (10, 10, True), (11, 10, False), (1, 1, True), (1, 0, False),
])  # fmt: skip
def test_a_checkpoint_within_a_prompt_is_printed_before_its_last_token(end, n_tokens, is_early):
    assert bool(early_lines(lines_of(created(1, end)), n_tokens)) is is_early
    assert len(early_lines(lines_of("processing task, is_child = 0"), n_tokens)) == (n_tokens > 0)


def test_two_messages_in_a_line_of_the_file_may_both_be_contradicted():
    lines = [ReadLine(4, ParsedLine(Line("batch", "x"), 0, 7, {"p0": p0}), "x") for p0 in (2, 1)]
    assert [(one.line, one.printed) for one in contradictions(lines, [], {})] == [(4, {"p0": 2}), (4, {"p0": 1})]
