"""Is an answer generated when somebody needs it, and is all work counted?"""

from __future__ import annotations

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.events import Log
from cachesim.tools.server_logs.replay_candidates import SENT, WINDOWED, Playing, RunningPrompt

HEAD = "llama_cpp@b11549"


def sent(playing, text, **words):
    """A request that is sent for good."""
    playing.words |= words
    found = playing._send([text])
    playing.lines.append(text)
    return found


def test_an_answer_is_generated_when_a_copy_is_made():
    playing = Playing(HEAD, "A", {"parallel": 1})
    assert sent(playing, "A256>a50", A=256, a=50) == RunningPrompt(0, 0)
    before = playing.work
    (_, answer), = playing.waiting.values()
    assert (len(answer.tokens), before) == (1, SENT + 2 + 1)
    copy = playing._copy()
    assert (len(answer.tokens), playing.work, playing.waiting) == (50, before + 49, {})
    assert len(copy.tokens_of(0)) == 256 + 50 - 1


def test_the_next_request_finds_the_whole_answer():
    playing = Playing(HEAD, "A", {"parallel": 1})
    sent(playing, "A40>a9", A=40, a=9)
    assert sent(playing, "A.a.B5>b2", B=5, b=2) == RunningPrompt(0, 48)
    assert playing.stage.server.answer_at(0) is not None            # it is still being worked on


def test_what_is_given_up_is_not_generated():
    playing = Playing(HEAD, "A", {"parallel": 1})
    empty = playing._copy()
    sent(playing, "A40>a900", A=40, a=900)
    work = playing.work
    playing.lines.clear()
    playing._back(empty)
    assert sent(playing, "B30>b1", B=30, b=1) == RunningPrompt(0, 0)
    assert playing.work == work + SENT + 1


def test_a_token_of_a_model_with_a_window_counts_more():
    playing = Playing(HEAD, "W64 A", {"parallel": 1})
    sent(playing, "A40>a9", A=40, a=9)
    playing._copy()
    assert playing.work == SENT + 9 * WINDOWED


def test_what_cannot_be_played_is_none_and_changes_nothing():
    playing = Playing(HEAD, "A", {"parallel": 1})
    assert playing._send(["A40>a9@77"]) is None
    assert sent(playing, "A40>a9", A=40, a=9) == RunningPrompt(0, 0)


def test_rounds_are_counted_from_the_last_request_until_the_answer_is_complete():
    server = engine_of(HEAD).start(HEAD, "A", {"parallel": 1}, "none", Log())
    answer, rounds = server.submit(Request(tuple(range(40)), 3)), 0
    while not answer.done:
        server.take_tasks()
        server.update()
        rounds += 1
    playing = Playing(HEAD, "A", {"parallel": 1})
    playing.words |= {"A": 40, "a": 3}
    assert playing.rounds(playing._copy(), ["A40>a3"], ["A40>a3"]) == rounds > 2
    assert playing.rounds(playing._copy(), ["A40>a3"], []) == 0
