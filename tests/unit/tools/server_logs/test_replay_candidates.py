"""Simulated server for candidate requests: answers are generated only when needed, and all work is counted."""

from __future__ import annotations

from types import SimpleNamespace

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.events import Log
from cachesim.tools.server_logs.replay_candidates import PART, SENT, WINDOWED, CandidateServer, RunningPrompt

HEAD = "llama_cpp@b11549"


def sent(server_so_far, text, **words):
    """Send a request and accept it."""
    server_so_far.words |= words
    found = server_so_far._send([text])
    server_so_far.lines.append(text)
    return found


def test_an_answer_is_generated_when_a_copy_is_made():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    assert sent(server_so_far, "A256>a50", A=256, a=50) == RunningPrompt(0, 0, 256)
    before = server_so_far.work
    (_, answer), = server_so_far.waiting.values()
    assert (len(answer.tokens), before) == (1, SENT + 2 + 1)
    copy = server_so_far._copy()
    assert (len(answer.tokens), server_so_far.work, server_so_far.waiting) == (50, before + 49, {})
    assert len(copy.inspection.tokens_of(0)) == 256 + 50 - 1


def test_the_next_request_finds_the_whole_answer():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    sent(server_so_far, "A40>a9", A=40, a=9)
    assert sent(server_so_far, "A.a.B5>b2", B=5, b=2) == RunningPrompt(0, 48, 6)
    assert server_so_far.stage.server.inspection.answer_at(0) is not None            # still running


def test_answers_of_rejected_candidates_are_not_generated():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    empty = server_so_far._copy()
    sent(server_so_far, "A40>a900", A=40, a=900)
    work = server_so_far.work
    server_so_far.lines.clear()
    server_so_far._reset(empty)
    assert sent(server_so_far, "B30>b1", B=30, b=1) == RunningPrompt(0, 0, 30)
    assert server_so_far.work == work + SENT + 1


def test_a_token_of_a_model_with_a_window_counts_more():
    server_so_far = CandidateServer(HEAD, "W64 A", {"parallel": 1})
    sent(server_so_far, "A40>a9", A=40, a=9)
    server_so_far._copy()
    assert server_so_far.work == SENT + 9 * WINDOWED


def test_a_server_that_is_not_copied_starts_again_with_the_accepted_requests():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    server_so_far._reset(None)
    assert (server_so_far.work, list(server_so_far.stage.server.inspection.tokens_of(0))) == (0, [])
    sent(server_so_far, "A40>a9", A=40, a=9)
    server_so_far._finish_answers()
    before = server_so_far.work
    held = list(server_so_far.stage.server.inspection.tokens_of(0))
    server_so_far._reset(None)
    assert len(held) == 48 and list(server_so_far.stage.server.inspection.tokens_of(0)) == held
    assert server_so_far.work == 2 * before + 1                       # it holds a request already
    assert server_so_far.stage.log.events == []


def test_a_refused_request_returns_none_and_leaves_the_server_unchanged():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    assert server_so_far._send(["A40>a9@77"]) is None
    assert sent(server_so_far, "A40>a9", A=40, a=9) == RunningPrompt(0, 0, 40)


def test_rounds_are_counted_from_the_last_request_until_the_answer_is_complete():
    server = engine_of(HEAD).start(HEAD, "A", {"parallel": 1}, "none", Log())
    answer, rounds = server.submit(Request(tuple(range(40)), 3)), 0
    while not answer.done:
        server.take_tasks()
        server.update()
        rounds += 1
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    server_so_far.words |= {"A": 40, "a": 3}
    assert server_so_far.rounds(server_so_far._copy(), ["A40>a3"], ["A40>a3"]) == rounds > 2
    assert server_so_far.rounds(server_so_far._copy(), ["A40>a3"], []) == 0


def test_a_server_that_is_nested_too_deeply_is_not_copied():
    def fork():
        raise RecursionError

    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    assert server_so_far._copy_of(SimpleNamespace(fork=fork)) is server_so_far._copy_of(None) is None
    assert server_so_far._copy_of(SimpleNamespace(fork=lambda: "copy")) == "copy"


class Checked(CandidateServer):
    """Server that counts how often the answers to requests are complete."""

    times = 0

    def _check_answers(self):
        self.times += 1


def test_answers_are_compared_once():
    server_so_far = Checked(HEAD, "A", {"parallel": 1})
    server_so_far._finish_answers()
    assert server_so_far.times == 0
    sent(server_so_far, "A40>a9", A=40, a=9)
    server_so_far._finish_answers()
    server_so_far._copy()
    assert server_so_far.times == 1
    sent(server_so_far, "A.a.B5>b2", B=5, b=2)
    assert server_so_far.times == 1
    server_so_far._reset(None)
    server_so_far._finish_answers()
    assert server_so_far.times == 1                               # the request sent last was rejected


def test_a_new_server_holds_nothing_of_a_rejected_request():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    sent(server_so_far, "A40>a9", A=40, a=9)
    server_so_far.lines.clear()
    server_so_far._reset(None)
    assert list(server_so_far.stage.server.inspection.tokens_of(0)) == []


def test_work_of_prompts_grows_with_their_parts_and_the_accepted_requests():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    server_so_far.lines = ["A"] * 3
    server_so_far._count([SimpleNamespace(request=SimpleNamespace(prompt=[0] * size)) for size in (PART, 2 * PART - 1)])
    assert server_so_far.work == 2 * (SENT + 3 + 1)


def test_an_answer_prints_its_reused_and_evaluated_tokens():
    assert RunningPrompt(3, 5, 9).printed == {"n_past": 5, "prompt_n": 9}


def test_the_events_are_those_of_the_requests_sent_last():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    sent(server_so_far, "A40>a9", A=40, a=9)
    first = [type(event).__name__ for event in server_so_far.events]
    sent(server_so_far, "B40>b9", B=40, b=9)
    assert first.count("Launch") == 1
    assert [type(event).__name__ for event in server_so_far.events].count("Launch") == 1
    assert list(server_so_far.stage.log.events) == []


def test_the_work_of_counted_rounds_includes_the_prompts():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 2})
    server_so_far.words |= {"A": PART, "a": 5}
    server_so_far.rounds(server_so_far._copy(), [f"A{PART}>a5"], [])
    assert server_so_far.work == SENT + 1
    before = server_so_far.work
    server_so_far.rounds(server_so_far._copy(), [f"A{PART}>a5"], [f"A{PART}>a5"])
    assert server_so_far.work - before == SENT + 1 + 5


def test_a_request_of_a_group_is_sent_after_loops_in_which_the_one_before_it_runs():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 2})
    server_so_far.words |= {"A": 40, "a": 30, "B": 9, "b": 1}
    empty, alone = server_so_far._copy(), "A40>a30"
    whole = server_so_far.rounds(empty, [alone], [alone])
    for after in (1, 4):
        assert server_so_far.rounds(empty, [alone, f"B9>b1{{together+{after}}}"], [alone]) == whole - after


def test_the_events_of_an_answer_are_those_of_its_request():
    server_so_far = CandidateServer(HEAD, "A", {"parallel": 1})
    sent(server_so_far, "A40>a9", A=40, a=9)
    before = len(server_so_far.events)
    server_so_far._finish_answers()
    assert "Release" in [type(event).__name__ for event in server_so_far.events[before:]]
    assert list(server_so_far.stage.log.events) == []
