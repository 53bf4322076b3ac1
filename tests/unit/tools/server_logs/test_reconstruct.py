"""Choices that the reconstruction of a log tries for a request."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.tools.server_logs.assumed_lengths import AssumedLength
from cachesim.tools.server_logs.before_the_log import OTHER_PROMPT
from cachesim.tools.server_logs.log_reader import read_session
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.recognise import grammars
from cachesim.tools.server_logs.reconstruct import (
    LATER,
    UBATCH,
    UNCACHED,
    ScenarioBuilder,
    _found_nothing,
    _task_kind,
    _window,
)
from cachesim.tools.server_logs.reconstruction import PromptChoice, ReconstructedRequest
from cachesim.tools.server_logs.slot_contents import SlotText

LATEST = "llama_cpp@b11549"
END = grammars()["llama_cpp"].end


def builder(*lines, engine="llama_cpp", profile=LATEST, model="A", **server):
    """Return a builder for a log with these lines."""
    return ScenarioBuilder(read_session(engine, grammars()[engine], lines), profile, model, server)


def logged(**counts):
    """Return a request whose numbers the log determines."""
    numbers = {name: ProvenRange(counts[name], counts[name]) for name in ("cache_n", "lcp", "held") if name in counts}
    return LoggedRequest(**counts, numbers=numbers)


def in_slot(made, *requests):
    """Let these requests follow each other in a slot."""
    made.next_of = dict(zip(map(id, requests), [*requests[1:], None], strict=True))
    return requests[0]


def choice(lcp=10, n_tokens=1000, **more):
    return PromptChoice(SlotText(), lcp, "", length=AssumedLength(n_tokens), **more)


def test_a_request_that_reused_nothing_may_have_disabled_the_cache():
    made, shared, new = builder(), choice(10), choice(0)
    assert made._uncached(logged(cache_n=0), [shared, new]) == [choice(10, is_cached=False)._replace(why=UNCACHED)]
    assert made._uncached(logged(cache_n=1), [shared]) == made._uncached(logged(cache_n=0, full=True), [shared]) == []
    assert made._uncached(logged(), [shared]) == []


@pytest.mark.parametrize("counts, at", [
    ([(0, 0), (300, 500)], 300), ([(0, 0), (500, 500)], 0), ([(300, 300), (300, 500)], 0),
    ([(299, 299), (300, 500)], 300), ([(0, 0), (400, 400), (300, 500)], 300),
    ([(0, 0), (200, 200), (300, 500)], 0), ([(0, 0), (300, 300), (300, 500)], 300),
    ([(0, 0), (None, 500), (300, 500)], 0), ([(0, 0)], 0),
    ([(0, 0), *[(400, 400)] * (LATER - 1), (300, 500)], 300), ([(0, 0), *[(400, 400)] * LATER, (300, 500)], 0),
])  # fmt: skip
def test_a_later_request_resumes_where_a_message_begins_if_those_between_kept_it(counts, at):
    made = builder()
    first = in_slot(made, *(logged(lcp=lcp) if cache_n is None else logged(cache_n=cache_n, lcp=lcp)
                            for cache_n, lcp in counts))  # fmt: skip
    assert made._resumption(first) == at


@pytest.mark.parametrize("n_tokens, created, marks", [
    (301 + END, (), [(300,)]), (300 + END, (), []), (1000, (9,), []), (1000, (), [(300,)])])
def test_a_message_within_a_prompt_is_tried_where_a_later_request_resumes(n_tokens, created, marks):
    made = builder()
    first = in_slot(made, logged(cache_n=0, lcp=0, created=created), logged(cache_n=300, lcp=500))
    assert [one.marks for one in made._resumed_later(first, [choice(n_tokens=n_tokens)])] == marks


def messages(created, simulated=(), before=(), n_tokens=4000, is_alone=True, marks=()):
    """Return the tokens at which user messages are tried, for checkpoints of the log and of the simulated server."""
    made = builder()
    made._created, made.marks = lambda: {*simulated}, before
    return list(made._user_messages(logged(created=created), choice(n_tokens=n_tokens, marks=marks), is_alone))


def test_messages_are_tried_at_checkpoints_that_the_simulated_server_does_not_create():
    assert messages((100, 200), simulated=(200,)) == [(100,), (100,)]
    assert messages((100, 200), simulated=(200,), before=(50,)) == [(100,), (50, 100)]
    assert messages((100,), simulated=(100,)) == messages((100,), marks=(7,)) == []


@pytest.mark.parametrize("at, is_tried", [(0, False), (1, True), (999, True), (1000, False)])
def test_messages_begin_within_the_prompt(at, is_tried):
    assert (messages((at,), n_tokens=1000) != []) == is_tried


def test_a_checkpoint_a_micro_batch_before_the_end_is_no_message():
    assert messages((4000 - END - 512,)) == [] and messages((4000 - END - 511,)) != []


def test_a_request_that_was_not_alone_is_tried_without_the_last_checkpoints_first():
    late = 4000 - END - UBATCH
    assert messages((100, late + 1), is_alone=False) == [(100,), (100, late + 1), (100, late + 1)]
    assert messages((100, late - 1), is_alone=False) == [(100, late - 1)] * 2
    assert messages((late + 1,), is_alone=False) == [(late + 1,)] * 2
    assert messages((100, late + 1)) == [(100, late + 1)] * 2


@pytest.mark.parametrize("request_, held", [
    (logged(), None), (logged(held=80), 80), (logged(held=80, cache_n=60), 80),
    (LoggedRequest(cache_n=60, numbers={"held": ProvenRange(50, 70)}), 60),
    (LoggedRequest(cache_n=40, numbers={"held": ProvenRange(50, 70)}), 60),
    (LoggedRequest(numbers={"held": ProvenRange(50, 70)}), 60),
    (LoggedRequest(n_tokens=200, f_sim=0.5, f_keep=0.8), 125),
])  # fmt: skip
def test_a_slot_held_what_its_first_request_reused_if_the_log_allows_it(request_, held):
    assert builder()._held_before(request_) == held


@pytest.mark.parametrize(("several", "sent"), [(False, "A80"), (True, "A80@1")])
def test_a_slot_with_contents_is_filled_by_a_prompt_to_it_if_there_are_several(several, sent):
    made = builder(parallel=2)
    made.several = several
    made._fill_slot(logged(slot=1, held=80, lcp=20, cache_n=20))
    assert made.lines == [sent]
    made._fill_slot(logged(slot=1, held=90, lcp=20, cache_n=20))
    assert made.lines == [sent]


def test_the_conversation_in_the_prompt_cache_is_sent_and_another_prompt_after_it():
    made = builder(parallel=1)
    loaded = LoggedRequest(slot=0, n_tokens=100, cache_n=80, held=90, is_loaded=True,
                           numbers={"cache_n": ProvenRange(80, 80)})  # fmt: skip
    made.session.requests.append(loaded)
    made.next_of = {id(loaded): None}
    made._fill_prompt_cache()
    assert made.lines == ["A84>a7", f"B{OTHER_PROMPT}"]              # a prompt and its answer but the last token
    made.session.requests[0] = logged(slot=0, n_tokens=100, cache_n=0)
    made.lines.clear()
    made._fill_prompt_cache()
    assert made.lines == []


@pytest.mark.parametrize("facts, model, window", [
    ({"n_swa": 128}, "A", 128), ({"n_swa": 2}, "W64 A", 2), ({"n_swa": 1}, "W64 A", 64), ({"n_swa": True}, "A", 0),
    ({}, "W64 A W32", 64), ({}, "A", 0),
])  # fmt: skip
def test_the_window_is_the_printed_one_else_that_of_the_model(facts, model, window):
    assert _window(SimpleNamespace(facts=facts), model) == window


@pytest.mark.parametrize("tasks, kind", [
    ({}, "completion"), ({"chat": 1}, "chat"), ({"chat": 1, "x": 2}, "completion"),
])  # fmt: skip
def test_the_kind_of_task_is_that_of_all_access_lines(tasks, kind):
    assert _task_kind(SimpleNamespace(tasks=tasks)) == kind


def fetched(prompts):
    line = SimpleNamespace(number_of=lambda name: prompts if name == "prompts" else None)
    return SimpleNamespace(of=lambda *kinds: [line] if "fetch" in kinds else [])


@pytest.mark.parametrize("fields, is_first", [
    ({"task": 0}, True), ({"task": 1}, False), ({}, False), ({"task": 1, "tied": fetched(0)}, True),
    ({"task": 1, "tied": fetched(1)}, False), ({"tied": fetched(None)}, False),
])  # fmt: skip
def test_the_first_request_of_a_server_found_nothing(fields, is_first):
    assert _found_nothing(LoggedRequest(**fields)) == is_first


def test_the_assumptions_about_a_request_are_joined():
    made = builder()
    made.task_kind = "chat"
    sent = SimpleNamespace(cache_n=3, slot=1)
    text = SlotText().append_word("a", 5)
    found = SimpleNamespace(text="A9", sent=sent, word="A", new=9, content=text, held=text,
                            choice=choice(2, n_tokens=9, marks=(1500, 20))._replace(why="a guess"))  # fmt: skip
    found.choice = found.choice._replace(length=AssumedLength(9, "length assumed", True))
    request = ReconstructedRequest(logged(created=(4,)))
    made._take(request, found)
    assert request.assumed == ("chat request, as in all access lines of the log; length assumed; a guess; "
                               "user messages begin at 1,500, 20, where the log has checkpoints")
    assert (request.step, request.text, request.simulated_n, request.slot, request.n_tokens) == (0, "A9", 3, 1, 9)
    assert (request.is_bounded, request.lcp, made.marks, made.lines) == (True, 2, (1500, 20), ["A9"])
    assert made.words == {"A": 9, "a": 5}
    again = ReconstructedRequest(logged())
    found.choice, found.new, made.task_kind = choice(0, marks=(7,)), 0, "completion"
    made._take(again, found)
    assert again.assumed == "user messages begin at 7, where a later request resumes" and again.step == 1
