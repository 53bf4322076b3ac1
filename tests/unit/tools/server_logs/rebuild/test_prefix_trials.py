"""Requests of a log as a scenario: each unknown is tried until the simulation agrees with the log."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.rebuild.prefix_trials import ScenarioBuilder
from tests.unit.tools.server_logs.records import logged, read_line, tied_lines
from tests.unit.tools.server_logs.simulated_log import PROFILE, simulated_log

ENOUGH = 10**6               # work units


def builder(*requests, model="A", facts=None, tasks=None, kinds=None, **server):
    """Return the builder of a scenario for these requests."""
    session = LogSession("llama_cpp", list(requests), facts=facts or {}, tasks=tasks or {}, kinds=kinds or {})
    return ScenarioBuilder(session, PROFILE, model, {"parallel": 1, **server})


def line(*requests, **more):
    """Return the scenario of these requests in the notation."""
    return builder(*requests, **more).build(ENOUGH).line


def rebuilt(text, model="A", skip=0, **server):
    """Return the reconstruction of a log without the first ``skip`` requests."""
    lines = text.splitlines()
    ends = [number for number, line in enumerate(lines, 1) if "stop processing" in line]
    session = read_session("llama_cpp", grammars()["llama_cpp"], lines[ends[skip - 1] if skip else 0 :])
    return ScenarioBuilder(session, PROFILE, model, {"parallel": 1, "ctx_size": 32768, **server}).build(ENOUGH)


@pytest.mark.parametrize(("text", "model", "server", "found"), [
    ("A100>a9/A[:50].B40>b3", "A", {}, "A100>a9/A[:50].B40>b3"),
    ("A100>a9/A[:50].B40>b3!", "A", {}, "A100>a9/A[:50].B40>b3!"),
    ("A900>a20/A[:500].A[600:900].B9>b3", "A", {"cache_reuse": 16}, "A900>a20/A[:500].A[600:900].B9>b3"),
    ("A1000>a9{n_keep=40}/B500>b5/A.C9>c4", "A", {}, "A1000>a9{n_keep=40}/B500>b5/A.C9>c4"),
    ("A100>a9/B50>b5@1/A[:70].C9>c4@1", "A", {"parallel": 2}, "A100>a9/B50>b5@1/A[:70].C9>c4@1"),
    ("A100>a9@0/B50>b5/C70>c4", "A", {"parallel": 2}, "A100>a9@0/B50>b5/C70>c4"),
    ("S900.|A700>a40/S.|B300>b9/S.|C300>c30", "GGGA", {},
     "A1600[:900].|A1600[900:1600]>a40/A[:900].B300>b9/A[:900].C300>c30"),
    ("S900.|A700>a40/T2000>t9/S.A[:300].|B300>b30", "GGGA", {},
     "A1600[:900].|A1600[900:1600]>a40/B2000>b9/A[:1200].|C300>c30"),
    ("S900.|A700>a40/T2000.|U50>t9{together}/S.|B30>b4", "GGGA", {"parallel": 2},
     "A1600[:900].|A1600[900:1600]>a40/B2050[:2000].|B2050[2000:2050]>b9{together}/A[:900].C30>c4"),
    ("A2000>a9/B3000>b5{together+1}/A.C9>c4", "GGGA", {"parallel": 2}, "A2000>a9/B3000>b5{together+1}/A.C9>c4"),
])  # fmt: skip
def test_a_log_gives_back_the_conversation_that_it_is_of(text, model, server, found):
    made = rebuilt(simulated_log(text, model, 4, **server), model, **server)
    assert (made.line, made.contradicted, made.untried_requests) == (found, [], set())
    assert all(request.agrees for request in made.requests)


@pytest.mark.parametrize(("text", "model", "skip", "server", "found"), [
    ("A1000>a9/B500>b5/A.C9>c4", "A", 2, {}, "A1004>a5/B504/A[:1000].C9>c4"),
    ("S900.|A700>a40/S.|B300>b9/S.|C300>c30", "GGGA", 1, {}, "A904/A.B696>b40/A[:900].C300>c9/A[:900].D300>d30"),
    ("A100>a9/B200>b4/A.a.C9>c4/B.D9>d4", "A", 2, {"parallel": 2}, "A108@1/A.B10>b4/C203@0/C[:200].D9>d4"),
])  # fmt: skip
def test_an_excerpt_begins_with_prompts_that_fill_its_slots_and_its_prompt_cache(text, model, skip, server, found):
    made = rebuilt(simulated_log(text, model, 4, **server), model, skip, **server)
    assert (made.line, made.contradicted) == (found, []) and all(request.agrees for request in made.requests)


FIRST = logged(n_tokens=100, cache_n=0, task=0)


@pytest.mark.parametrize(("fields", "sent"), [
    ({"lcp": 20, "cache_n": 20}, "A[:20].B50>b1"), ({"lcp": 70, "cache_n": 69}, "A[:70]>b1"),
    ({"lcp": 0, "cache_n": 0}, "B70>b1"),
    ({"lcp": 20, "predicted_n": 3}, "A[:20].B50>b3"), ({"lcp": 20, "end": 74}, "A[:20].B50>b5"),
    ({"lcp": 20, "end": 75, "predicted_n": 0}, "A[:20].B50>b6"), ({"lcp": 20, "end": 50}, "A[:20].B50>b1"),
    ({"lcp": 20, "end": 74, "truncated": True}, "A[:20].B50>b1"),
    ({"lcp": 20, "end": 74, "shifts": ((0, 9),)}, "A[:20].B50>b1"),
    ({"lcp": 20, "end": 74, "is_cancelled": True}, "A[:20].B54>b1"),
    ({"lcp": 20, "n_keep": 9}, "A[:20].B50>b1{n_keep=9}"),
    ({"lcp": 20, "chunks": ((40, 60), (70, 75)), "chunk_start": 20}, "A[:20].A[40:60].A[70:75].B25>b1"),
    ({"lcp": 20, "chunks": ((40, 95),), "chunk_start": 20}, "A[:20].A[40:90]>b1"),
    ({"lcp": 20, "cache_n": 0}, "A[:20].B50>b1!"), ({"lcp": 20, "cache_n": 0, "full": True}, "A[:20].B50>b1"),
])  # fmt: skip
def test_a_request_has_the_prefix_the_answer_and_the_fields_that_the_log_shows(fields, sent):
    """The slot holds 100 tokens. A request that reused nothing may have disabled the cache; an answer of unknown length
    is what the slot holds after the prompt, and the last token."""
    assert line(FIRST, logged(n_tokens=70, task=1, **fields)) == f"A100>a1/{sent}"


def test_the_answer_to_a_request_without_new_text_can_be_continued():
    repeated, after = logged(n_tokens=70, lcp=70, predicted_n=10), logged(n_tokens=90, lcp=79, cache_n=79)
    assert line(FIRST, repeated, after) == "A100>a1/A[:70]>b10/A[:70].b[:9].C11>c1"


@pytest.mark.parametrize(("tasks", "field"), [
    ({}, ""), ({"completion": [1]}, ""), ({"infill": [1]}, "{task=infill}"), ({"infill": [1], "completion": [2]}, "")])
def test_requests_have_the_kind_of_task_that_all_access_lines_name(tasks, field):
    assert line(FIRST, tasks=tasks) == f"A100>a1{field}"


@pytest.mark.parametrize(("later", "marks"), [
    ([(300, 500)], "[:300].|A1000[300:1000]"), ([(500, 500)], ""), ([(999, 1000)], ""),
    ([(400, 400), (300, 500)], "[:300].|A1000[300:1000]"), ([(300, 300), (300, 500)], "[:300].|A1000[300:1000]"),
    ([(200, 200), (300, 500)], ""), ([(300, 300), (400, 400), (350, 500)], ""), ([(None, 500), (300, 500)], ""),
    ([(0, 0), (300, 500)], ""),
])  # fmt: skip
def test_a_user_message_begins_where_a_later_request_resumes_if_those_between_kept_it(later, marks):
    requests = [logged(n_tokens=1000, cache_n=cache_n, lcp=lcp) for cache_n, lcp in later]
    found = line(logged(n_tokens=1000, cache_n=0, lcp=0, task=0), *requests, model="GGGA")
    assert found.split("/")[0] == f"A1000{marks}>a1"


@pytest.mark.parametrize(("n_tokens", "created", "marks"), [
    (305, (), "[:300].|A305[300:305]"), (304, (), ""), (305, (9,), "")])
def test_a_message_begins_before_the_last_checkpoint_of_a_prompt_and_only_if_the_log_lists_none(
    n_tokens, created, marks
):
    """The last checkpoint of a prompt is 4 tokens before its end."""
    first = logged(n_tokens=n_tokens, cache_n=0, task=0, created=created)
    found = line(first, logged(n_tokens=900, cache_n=300, lcp=n_tokens), model="GGGA")
    assert found.split("/")[0] == f"A{n_tokens}{marks}>a1"


@pytest.mark.parametrize(("fields", "filled"), [
    ({"held": 80, "lcp": 20}, "A80"), ({"held": 80, "lcp": 20, "cache_n": 20}, "A80"), ({"lcp": 60}, "A60"),
    ({"cache_n": 33}, "A33"), ({"held": 30, "seen": 50, "lcp": 9}, "A50"),
    ({"held": (50, 70), "cache_n": 60}, "A60"), ({"held": (50, 70), "cache_n": 40, "lcp": 40}, "A60"),
    ({"n_tokens": 200, "f_sim": 0.5, "f_keep": 0.8, "chosen": "lcp"}, "A125"),
    ({"lcp": 80, "restored": 70}, "A80"), ({"lcp": 44, "restored_end": 40}, "A44"),
    ({"held": 90, "lcp": 50, "restored": 40, "restored_end": 40}, "A44>a47"),
    ({"checked": ((1, 2, 30),)}, "A7>a26"), ({"checked": ((5, 5, 30),)}, "A10>a22"),
    ({"n_tokens": 500, "cache_n": 290, "lcp": 300, "erased": (300,), "is_whole": True}, "A294/A.B10"),
    ({"n_tokens": 500, "cache_n": 300, "lcp": 302}, "A304"),
])  # fmt: skip
def test_a_slot_is_filled_with_what_its_first_request_shows(fields, filled):
    """A checkpoint is made 4 tokens before the end of a prompt. A window that lost a checkpoint shows 32 tokens, and a
    threshold of 30 shows 31."""
    found = line(logged(**{"n_tokens": 100, "task": 5, **fields}))
    assert found.rpartition("/")[0] == filled


def test_a_slot_is_filled_once_and_only_before_its_first_request():
    first, again = logged(n_tokens=100, task=5, lcp=20, held=80), logged(n_tokens=100, task=6, lcp=20, held=95)
    assert line(first, again) == "A80/A[:20].B80>b1/A[:20].C80>c1"


SHARED, MORE = (tied_lines(similar=[read_line("slot_sim", lcp=lcp)]) for lcp in (30, 80))


def loaded(cache_n, held, n_tokens=200, **more):
    """Return a request that loads an entry of the prompt cache."""
    return logged(n_tokens=n_tokens, cache_n=cache_n, held=held, is_loaded=True, task=9, **more)


@pytest.mark.parametrize(("requests", "sent"), [
    ([loaded(100, 100)], "A100/B64"), ([loaded(100, 103)], "A103/B64"), ([loaded(100, 104)], "A104/B64"),
    ([loaded(100, 150)], "A104>a47/B64"), ([loaded(100, 150, tied=SHARED)], "A104>a47/A[:30].B34"),
    ([loaded(100, 150), loaded(400, 400, 900)], "A104>a47/B400/C64"),
    ([loaded(100, 150, tied=SHARED), loaded(400, 400, 900)], "A104>a47/A[:30].B370/A[:30].C34"),
    ([loaded(100, 150, tied=MORE), loaded(400, 400, 900)], "A104>a47/A[:80].B320/A[:63].C1"),
    ([logged(n_tokens=90, cache_n=0, end=95, task=5), loaded(100, 100)], "A100"),
    ([logged(n_tokens=90, cache_n=0, end=(95, 100), task=5), loaded(100, 100)], ""),
])  # fmt: skip
def test_entries_from_before_the_log_are_sent_with_what_they_share(requests, sent):
    """A request that resumes within an entry shows a checkpoint 4 tokens before the end of a prompt. Another prompt of
    64 tokens follows if the first request of the log loaded an entry."""
    assert "/".join(line(*requests).split("/")[: -len(requests)]) == sent


@pytest.mark.parametrize(("first", "kinds", "assumes"), [
    ({"task": 0}, {}, False), ({"task": 5}, {}, True), ({"task": 5}, {"server": 1}, False),
    ({"task": 5, "tied": tied_lines(read_line("fetch", prompts=0))}, {}, False),
    ({"task": 5, "tied": tied_lines(read_line("fetch", prompts=1))}, {}, True),
])  # fmt: skip
def test_only_the_first_request_of_a_server_is_known_to_share_nothing(first, kinds, assumes):
    found = builder(logged(n_tokens=40, cache_n=0, **first), kinds=kinds).build(ENOUGH)
    assert (found.requests[0].assumed != "") is assumes


@pytest.mark.parametrize(("model", "facts", "lcp"), [
    ("A", {}, 100), ("W64 A", {}, 164), ("W64 A", {"n_swa": 128}, 228), ("W64 A", {"n_swa": 1}, 164)])
def test_a_threshold_is_lower_than_the_prefix_by_the_printed_window_else_that_of_the_model(model, facts, lcp):
    requests = logged(n_tokens=400, cache_n=0, task=0), logged(n_tokens=390, checked=((1, 2, 100),), is_whole=True)
    assert line(*requests, model=model, facts=facts) == f"A400>a1/A[:{lcp}].B{390 - lcp}>b1"


def in_slot(slot, task, first, last, **more):
    return logged(slot=slot, task=task, lines=(first, last), n_tokens=40, cache_n=0, predicted_n=2, **more)


@pytest.mark.parametrize(("requests", "found"), [
    ([in_slot(1, 0, 1, 9), in_slot(0, 1, 10, 20)], "A40>a2/B40>b2"),
    ([in_slot(0, 0, 1, 9), in_slot(1, 1, 10, 20)], "A40>a2@0/B40>b2"),
    ([in_slot(0, 0, 1, 9)], "A40>a2"), ([in_slot(0, 0, 1, 9, chosen="id")], "A40>a2@0"),
    ([in_slot(0, 0, 1, 9, chosen="lru")], "A40>a2"), ([in_slot(1, 0, 1, 9, chosen="id")], "A40>a2@1"),
    ([in_slot(0, 0, 1, 9), in_slot(0, 1, 5, 20)], "A40>a2/B40>b2"),
    ([in_slot(0, 0, 1, 9), in_slot(1, 1, 5, 20), in_slot(0, 2, 25, 30)], "A40>a2@0/B40>b2{together}/C40>c2"),
    ([in_slot(0, 0, 1, 9), in_slot(1, 1, 5, 20), in_slot(0, 2, 15, 30)],
     "A40>a2@0/B40>b2{together}/C40>c2{together}"),
    ([in_slot(0, 0, 1, 9), in_slot(1, 5, 5, 20), in_slot(0, 6, 15, 30)],
     "A40>a2@0/B40>b2{together+4}/C40>c2{together}"),
])  # fmt: skip
def test_requests_name_the_slot_that_the_server_would_not_choose_and_overlap_as_in_the_log(requests, found):
    """An idle server chooses slot 1 first. Task ids show when a request of a group arrived; it waits for a slot."""
    assert line(*requests, parallel=2) == found


def test_used_slots_are_filled_so_that_the_server_prefers_a_slot_that_was_never_used():
    """Slot 2 was never used; the log begins with a request in slot 3, and slot 1 has none. The first request of slot 0
    shows 90 tokens."""
    unused = tied_lines(choice=read_line("slot_by_lru", t_last=-1))
    requests = [in_slot(3, 5, 1, 2), in_slot(2, 6, 3, 4, tied=unused),
                logged(slot=0, task=7, lines=(5, 6), n_tokens=100, held=90, cache_n=90)]  # fmt: skip
    assert line(*requests, parallel=4).split("/") == ["A90@0", "B64@1", "C40>c2", "D40>d2", "A.E10>e1"]


def test_requests_that_cannot_be_simulated_are_left_out():
    found = builder(logged(), logged(n_tokens=5, is_refused=True), logged(n_tokens=10**7, cache_n=0),
                    in_slot(0, 9, 1, 2)).build(ENOUGH)  # fmt: skip
    assert [request.step for request in found.requests] == [-1, -1, -1, 0]
    assert [bool(request.left_out) for request in found.requests] == [True, True, True, False]
    assert len({request.left_out for request in found.requests}) == 4


TURNS = [in_slot(0, task, 2 * task + 1, 2 * task + 2) for task in range(4)]


def test_the_requests_that_exceed_the_budget_are_not_simulated():
    made = builder(*TURNS)
    assert made.build(ENOUGH).line == "A40>a2/B40>b2/C40>c2/D40>d2" and not made.stopped_early
    for most, number in ((0, 1), (made.work // 2, 3), (made.work, 4)):
        again = builder(*TURNS)
        assert (len(again.build(most).requests), again.stopped_early) == (number, number < 4)


def test_the_answers_that_are_owed_count_before_they_are_generated():
    long = [logged(n_tokens=40, cache_n=0, task=task, predicted_n=5000) for task in range(3)]
    made = builder(*long)
    found = made.build(2000)
    assert (len(found.requests), made.stopped_early) == (1, True) and made.work < 200


def test_when_the_budget_is_spent_only_the_simplest_choice_is_tried():
    """The second request disabled the cache, which is the second choice."""
    uncached = logged(n_tokens=70, lcp=20, cache_n=0)
    found = builder(FIRST, uncached).build(300)
    assert (found.line, found.untried_requests, found.requests[1].agrees) == ("A100>a1/A[:20].B50>b1", {1}, False)
    found = builder(FIRST, uncached).build(800)
    assert (found.untried_requests, found.requests[1].agrees) == (set(), True)


def test_a_candidate_stops_as_soon_as_it_cannot_be_better_than_the_best():
    never = logged(n_tokens=40, cache_n=40, task=1)               # the last token is always evaluated
    best = builder(*TURNS[:3], never).build(ENOUGH)
    equal = builder(TURNS[0], never, *TURNS[2:])
    assert len(equal.build(ENOUGH, best).requests) == 2 and not equal.stopped_early
    assert len(builder(*TURNS).build(ENOUGH, best).requests) == 4


def test_lines_of_requests_that_run_together_are_compared_with_their_own_requests():
    server = {"parallel": 2, "batch_size": 256, "ubatch_size": 64}
    text = simulated_log("A600>a9/B400>b50{together+1}/A.C9>c4", "GGGA", 4, **server)
    number = next(at for at, line in enumerate(text.splitlines(), 1)
                  if "task 0 |" in line and "created context checkpoint 1" in line)  # fmt: skip
    lines = text.splitlines()
    lines[number - 1] = lines[number - 1].replace("pos_max = ", "pos_max = 1")
    found = rebuilt("\n".join(lines), "GGGA", **server)
    assert [one.line for one in found.contradicted] == [number]
    assert [bool(request.contradicted) for request in found.requests] == [True, False, False]


def test_a_length_that_the_log_bounds_is_assumed():
    [open_] = builder(logged(lcp=40, task=0)).build(ENOUGH).requests
    assert (open_.n_tokens, open_.is_bounded, bool(open_.assumed)) == (41, False, True)
    [request] = builder(logged(n_tokens=(100, 105), cache_n=0, task=0)).build(ENOUGH).requests
    assert (request.n_tokens, request.is_bounded, request.lcp, request.slot) == (102, True, 0, 0)
    assert request.assumed and request.simulated_n == 0
