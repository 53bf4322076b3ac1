"""Choices that the reconstruction of a log tries for a request."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.tools.server_logs import reconstruct
from cachesim.tools.server_logs.assumed_lengths import AssumedLength
from cachesim.tools.server_logs.before_the_log import OTHER_PROMPT
from cachesim.tools.server_logs.log_reader import read_session
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.recognise import grammars
from cachesim.tools.server_logs.reconstruct import (
    AGAIN,
    LATER,
    UBATCH,
    UNCACHED,
    ScenarioBuilder,
    _answer_length,
    _found_nothing,
    _RequestGroup,
    _task_kind,
    _window,
)
from cachesim.tools.server_logs.reconstruction import PromptChoice, ReconstructedRequest, Reconstruction
from cachesim.tools.server_logs.session import LogSession
from cachesim.tools.server_logs.slot_contents import MOST, SlotText

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
    ([(0, 0), (300, 300), (400, 400), (350, 500)], 0),
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
    made.names_slots = several
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
    found.word, found.new = "B", 1
    made._take(ReconstructedRequest(logged()), found)
    assert made.words == {"A": 9, "a": 5, "B": 1, "b": 5}
    found.choice, found.new, made.task_kind = choice(0, marks=(7,)), 0, "completion"
    made._take(again, found)
    assert again.assumed == "user messages begin at 7, where a later request resumes" and again.step == 2


def parts(text):
    return [(part.word, part.start, part.start + part.take) for part in text.parts], text.prompt


def test_earlier_prompts_are_sent_one_after_another_and_the_last_is_answered():
    made = builder(parallel=1)
    text = made._send_earlier(SlotText(), [84, 100], 7, "")
    assert (made.lines, made.words) == (["A84", "A.B16>b7"], {"A": 84, "B": 16, "b": 7})
    assert parts(text) == ([("A", 0, 84), ("B", 0, 16)], 0)
    assert parts(made.texts.slots[0]) == ([("A", 0, 84), ("B", 0, 16), ("b", 0, 6)], 100)
    assert made.texts.stored == []                                       # the first prompt is a prefix of the second
    made._send_earlier(text.prefix(30), [50], 1, "")
    assert made.lines[2:] == ["A[:30].C20"] and made.words["C"] == 20
    assert parts(made.texts.slots[0]) == ([("A", 0, 30), ("C", 0, 20)], 50)
    assert [parts(text) for text in made.texts.stored] == [([("A", 0, 84), ("B", 0, 16), ("b", 0, 6)], 100)]


def test_earlier_prompts_go_to_the_slot_that_is_named():
    made = builder(parallel=2)
    made._send_earlier(SlotText(), [20], 3, "@1")
    made._send_earlier(SlotText(), [20], 2, "@0")
    assert made.lines == ["A20>a3@1", "B20>b2@0"] and [*made.texts.slots] == [1, 0]


def test_an_earlier_prompt_that_a_server_refuses_is_left_out():
    made = builder(parallel=1)
    send, refused = made._send, [False, True]
    made._send = lambda texts: None if refused.pop(0) else send(texts)
    text = made._send_earlier(SlotText(), [100, 400], 1, "")
    assert (made.lines, made.words, parts(text)) == (["A100"], {"A": 100}, ([("A", 0, 100), ("B", 0, 300)], 0))


def held(made, **words):
    """Fill the slot of a builder with a prompt of these words, and return the prompt."""
    text = SlotText()
    for word, size in words.items():
        made.words[word] = size
        text = text.append_word(word, size)
    line = text.notation().replace("A", f"A{words['A']}", 1)
    made._send([line])
    made.lines.append(line)
    made._finish_answers()
    return text


@pytest.mark.parametrize(("fields", "lcp", "text", "reused"), [
    ({}, 20, "A[:20].B50>b1", 20), ({"predicted_n": 3}, 20, "A[:20].B50>b3", 20), ({}, 70, "A[:70]>b1", 69),
    ({"end": 74}, 20, "A[:20].B50>b5", 20), ({"n_keep": 9}, 20, "A[:20].B50>b1{n_keep=9}", 20),
    ({"chunks": ((40, 60), (70, 75)), "chunk_start": 20}, 20, "A[:20].A[40:60].A[70:75].B25>b1", 20),
    ({"chunks": ((40, 95),), "chunk_start": 20}, 20, "A[:20].A[40:90]>b1", 20),
    ({"chunks": ((40, 60),), "chunk_start": 21}, 20, "A[:20].B50>b1", 20),
])  # fmt: skip
def test_a_request_is_sent_with_its_beginning_its_moved_chunks_and_its_answer(fields, lcp, text, reused):
    made = builder(parallel=1)
    base = held(made, A=100)
    words = dict(made.words)
    found = made._try(LoggedRequest(**fields), choice(lcp, 70)._replace(base=base), "B", None, None)
    assert (found.text, found.sent.cache_n, found.sent.prompt_n, found.word) == (text, reused, 70 - reused, "B")
    new = int(text.partition(".B")[2].partition(">")[0] or 0)
    size = int(text.partition(">b")[2].partition("{")[0])
    assert (found.new, parts(found.content)) == (new, ([("b", 0, size)], 0))
    assert found.held.prompt == 70 and found.held.size == 70 + size - 1 and made.words == words


def test_a_request_without_the_cache_and_of_another_kind_is_written_so():
    made = builder(parallel=1)
    made.task_kind = "infill"
    text = made._try(LoggedRequest(), choice(0, 30, is_cached=False, marks=(12,)), "A", None, None).text
    assert text == "A30[:12].|A30[12:30]>a1!{task=infill}"


def test_a_request_names_its_slot_if_the_server_would_choose_another():
    made = builder(parallel=2)
    made.names_slots = True
    base = held(made, A=100)
    begin = made._copy()
    used = made.stage.server.inspection
    [slot] = [number for number in range(2) if used.tokens_of(number)]
    sent = [made._try(LoggedRequest(slot=number), choice(90, 95)._replace(base=base), "B", None, begin).text
            for number in (slot, 1 - slot)]  # fmt: skip
    assert sent == ["A[:90].B5>b1", f"A[:90].B5>b1@{1 - slot}"]
    after = made.stage.server.inspection
    assert (len(after.tokens_of(slot)), len(after.tokens_of(1 - slot))) == (100, 95)      # it is sent there alone


def test_a_request_that_named_its_slot_names_it_again():
    chosen = "slot get_availabl: id 1 | task -1 | selected slot by id (1)"
    launched = "slot launch_slot_: id 1 | task 0 | processing task, is_child = 0"
    ends = [
        "slot print_timing: id 1 | task 0 | prompt eval time = 9 ms / 89 tokens (1 ms per token, 9 tokens per second)",
        "slot release: id 1 | task 0 | stop processing: n_tokens = 89, truncated = 0",
    ]
    other = chosen.replace("by id (1)", "by LRU, t_last = 0")
    sent = [builder(line, launched, *ends, parallel=2).build(9999).line for line in (chosen, other)]
    assert sent == ["A89>a1@1", "A89>a1"]


def test_a_request_that_is_refused_has_no_result():
    made = builder(parallel=1)
    made._send = lambda texts: None
    assert made._try(LoggedRequest(), choice(0, 40), "A", None, None) is None and made.words == {}


@pytest.mark.parametrize(("fields", "n_tokens", "length"), [
    ({}, 70, 1), ({"predicted_n": 5}, 70, 5), ({"predicted_n": 5, "end": 99}, 70, 5), ({"end": 75}, 70, 6),
    ({"end": 70}, 70, 1), ({"end": 50}, 70, 1), ({"end": 75, "truncated": True}, 70, 1),
    ({"end": 75, "is_cancelled": True}, 70, 1), ({"end": 75, "shifts": ((0, 9),)}, 70, 1),
    ({"predicted_n": 0, "end": 75}, 70, 6),
])  # fmt: skip
def test_an_answer_is_as_long_as_printed_else_as_the_rest_of_the_slot(fields, n_tokens, length):
    assert _answer_length(LoggedRequest(**fields), n_tokens) == length


class Launches:
    """Builder whose simulations contradict as many lines as ``lines`` says for each number of loop iterations."""

    def __init__(self, monkeypatch, lines, most=10**6):
        self.made, self.lines, self.tried = builder(), lines, []
        self.made.most, self.made.work = most, 5
        self.made._best, self.made._contradicted = self.best, lambda running, logged: 0
        monkeypatch.setattr(reconstruct, "loops_between", lambda running, logged: 0)
        monkeypatch.setattr(reconstruct, "tried_loops", lambda shown, members: [*lines])

    def best(self, request, group):
        self.tried.append(group and group.after)
        number = self.lines[group.after]
        return None if number is None else SimpleNamespace(contradicted=[0] * number, after=group.after)

    def launched(self, over=(), texts=("A5",)):
        group = _RequestGroup([*texts], None)
        found = self.made._launched(SimpleNamespace(logged=logged()), group, [(logged(), None)], over)
        return found and found.after, self.tried


@pytest.mark.parametrize(("lines", "most", "launched"), [
    ({2: 0, 3: 0}, 9, (2, [2])), ({2: 1, 3: 0, 4: 0}, 9, (3, [2, 3])),
    ({2: 4, 3: 2, 4: 2, 1: 3}, 9, (3, [2, 3, 4, 1, 3])),
    ({2: None}, 9, (None, [2])), ({2: 1, 3: None, 4: 0}, 9, (None, [2, 3])),
    ({2: 1, 3: 0}, 5, (3, [2, 3])), ({2: 1, 3: 0}, 4, (2, [2, 2])), ({}, 9, (None, [])),
])  # fmt: skip
def test_the_loops_between_two_launches_are_those_that_contradict_fewest_lines(monkeypatch, lines, most, launched):
    assert Launches(monkeypatch, lines, most).launched() == launched


def test_lines_of_running_requests_count_too(monkeypatch):
    launches = Launches(monkeypatch, {2: 0, 3: 0})
    counts = iter([1, 0])
    launches.made._contradicted = lambda running, logged: next(counts)
    assert launches.launched() == (3, [2, 3])


def test_the_first_request_of_a_group_and_a_single_one_are_simulated_once(monkeypatch):
    launches = Launches(monkeypatch, {0: 9, 2: 1})
    assert launches.launched(texts=()) == (0, [0])
    launches.made._best = lambda request, group: (request, group)
    assert launches.made._launched("request", None, [], []) == ("request", None)


class Choices:
    """Builder that tries prepared choices, named by their common tokens. ``results``: for each the number of lines that
    its simulation contradicts, "differs" for other reused tokens, None for a refused request."""

    def __init__(self, results, most=10**6, begin="begin", created=(), marked=()):
        self.made, self.results, self.tried = builder(), results, []
        made = self.made
        made.most, made.work = most, 5
        made.texts.choices = lambda logged, lengths: iter([choice(lcp) for lcp in results])
        made._lengths_of = lambda request: []
        made._uncached = made._resumed_later = lambda logged, choices: []
        made._copy, made._copy_of = lambda: begin, lambda server: server
        made._reset = lambda server: self.tried.append("reset")
        made._created = lambda: {*created}
        made._user_messages = lambda logged, choice, is_alone: iter(marked if not choice.marks else ())
        made._try = self.simulated
        self.request = ReconstructedRequest(logged())
        made.out.requests.append(self.request)

    def simulated(self, logged, choice, word, playing, begin):
        self.tried.append((choice.lcp, *choice.marks))
        result = self.results[choice.lcp] if not choice.marks else choice.marks[0]
        if result is None:
            return None
        contradicted = [0] * (result if isinstance(result, int) else 0)
        return SimpleNamespace(
            choice=choice, contradicted=contradicted, agrees_with=lambda logged: result != "differs",
            is_nearer=lambda other: len(contradicted) < len(other.contradicted),
        )  # fmt: skip

    def best(self, playing=None):
        """Return the choice of the best result, and the choices that were tried."""
        found = self.made._best(self.request, playing)
        tried = [one for one in self.tried if one != "reset"]
        name = None if found is None else (found.choice.lcp, *found.choice.marks)
        return name, [one[0] if len(one) == 1 else one for one in tried]


@pytest.mark.parametrize(("results", "best", "tried"), [
    ({1: 0, 2: 0}, (1,), [1]), ({1: "differs", 2: 0, 3: 0}, (2,), [1, 2]), ({1: None, 2: 0}, (2,), [1, 2]),
    ({1: "differs", 2: "differs"}, (1,), [1, 2, 1]), ({1: None, 2: "differs"}, (2,), [1, 2]), ({1: None}, None, [1]),
    ({1: "differs", 2: 3, 3: "differs"}, (2,), [1, 2, 3, 2]), ({1: 3, 2: 1, 3: 2}, (2,), [1, 2, 3, 2]),
    ({1: 3, 2: 3}, (1,), [1, 2, 1]), ({1: 3, 2: "differs"}, (1,), [1, 2, 1]), ({1: 3, 2: 1}, (2,), [1, 2]),
    ({1: 9, 2: 8, 3: 7, 4: 6, 5: 5, 6: 4, 7: 3}, (5,), [1, 2, 3, 4, 5]), ({}, None, []),
])  # fmt: skip
def test_the_first_choice_that_agrees_is_taken_else_the_nearest_else_the_simplest(results, best, tried):
    """The server is left in the state after the request: a choice that was not the last is sent again. After a choice
    that agrees but contradicts a line four more that agree are tried."""
    choices = Choices(results)
    assert choices.best() == (best, tried) and choices.made.out.untried_requests == set()
    resets = len([one for one in choices.tried if one == "reset"])
    assert resets == max(0, len(tried) - 1)


def test_only_the_simplest_choice_is_tried_when_the_work_is_spent():
    choices = Choices({1: "differs", 2: 0}, most=4)
    assert choices.best() == ((1,), [1]) and choices.made.out.untried_requests == {0}
    agreeing = Choices({1: 2, 2: 0}, most=4)
    assert agreeing.best() == ((1,), [1]) and agreeing.made.out.untried_requests == set()
    assert Choices({1: "differs", 2: 0}, most=5).best() == ((2,), [1, 2])


def test_few_choices_are_tried_if_each_needs_a_run_from_the_beginning():
    results = dict.fromkeys(range(1, 100), "differs")
    assert Choices(results, begin=None).best() == ((1,), [*range(1, AGAIN + 1), 1])
    assert Choices(results).best() == ((1,), [*range(1, MOST + 1), 1])
    group = Choices(results, begin=None)
    assert group.best(playing="group") == ((1,), [*range(1, MOST + 1), 1]) and "reset" not in group.tried


def test_messages_are_tried_after_a_choice_that_agrees_but_contradicts_a_line():
    """A message at a token that has no checkpoint on the simulated server explains nothing."""
    messages = [(2, 50), (0, 60)]
    assert Choices({1: 3, 9: 0}, marked=messages, created={0, 60}).best() == ((1, 0, 60), [1, (1, 2, 50), (1, 0, 60)])
    assert Choices({1: 3, 9: 0}, marked=messages).best() == ((9,), [1, (1, 2, 50), (1, 0, 60), 9])
    assert Choices({1: 3}, marked=messages).best() == ((1,), [1, (1, 2, 50), (1, 0, 60), 1])


def test_requests_that_cannot_be_sent_are_left_out_with_the_reason():
    made = builder(parallel=1)
    made._launched = lambda request, playing, kept, over: None
    made.lengths = [[], [AssumedLength(5)], [AssumedLength(5)]]
    members = [logged(), logged(is_refused=True), logged(task=5)]
    filled = []
    made._fill_slot = filled.append
    made._add_all(members)
    assert filled == [members[0], members[2]]
    assert [(one.logged, one.left_out, one.step) for one in made.out.requests] == [
        (members[0], "no prompt length in the log", -1), (members[1], "refused by the server", -1),
        (members[2], "not possible with these options", -1)]  # fmt: skip


def test_slots_keep_the_texts_of_a_group_in_the_order_of_their_release():
    made, kept, groups = builder(parallel=2), [], []
    members = [logged(slot=at, task=at, lines=lines) for at, lines in enumerate([(1, 9), (2, 4), (5, 7)])]
    made.lengths = [[AssumedLength(5)]] * 3
    made.texts.keep = lambda slot, text: kept.append((slot, text))

    def launched(request, playing, running, over):
        at = request.logged.task
        groups.append(([*playing.texts], [one.task for one, _ in running], [one.task for one, _ in over], [*kept]))
        return SimpleNamespace(text=f"text {at}", held=f"held {at}", sent=SimpleNamespace(slot=at))

    made._launched, made._take, made._fill_slot = launched, lambda request, found: None, lambda logged: None
    made._add_all(members)
    assert groups == [([], [], [], []), (["text 0"], [0], [], []),
                      (["text 0", "text 1"], [0], [1], [(1, "held 1")])]  # fmt: skip
    assert kept == [(1, "held 1"), (2, "held 2"), (0, "held 0")]


def of_slot(slot, task, first, last):
    return LoggedRequest(slot=slot, task=task, lines=(first, last), n_tokens=5, predicted_n=2)


@pytest.mark.parametrize(("several", "groups"), [(True, [[0, 1], [2]]), (False, [[0], [1], [2]])])
def test_requests_at_the_same_time_are_sent_together_if_the_server_has_several_slots(several, groups):
    made = builder(parallel=2)
    made.session.requests = [of_slot(0, 0, 1, 9), of_slot(1, 1, 5, 20), of_slot(0, 2, 25, 30)]
    made.names_slots, made.started, sent = several, True, []
    made._add_all = lambda members: sent.append([one.task for one in members])
    assert made.build(10**6) is made.out and (sent, made.stopped_early) == (groups, False)


@pytest.mark.parametrize(("most", "best", "sent", "is_early"), [
    (6, "best", [0, 1, 2], False), (5, "best", [0, 1], True), (3, "best", [0, 1], True), (2, "best", [0], True),
    (6, None, [0, 1, 2], False), (5, None, [0, 1], True),
])  # fmt: skip
def test_the_answers_that_are_owed_count_before_they_are_generated(monkeypatch, most, best, sent, is_early):
    """Each answer has two tokens, which are generated before the next request. Each prompt is a unit of work."""
    made, added = builder(parallel=1), []
    made.session.requests = [of_slot(0, task, 1, 2) for task in range(3)]
    made.names_slots, made.started, made.work = False, True, 0
    monkeypatch.setattr(Reconstruction, "can_exceed", lambda self, best, left: True)
    monkeypatch.setattr(Reconstruction, "untried_requests", set(), raising=False)

    def add(members):
        made.work += 1 + 2 * bool(added)                          # the prompt, and the answer before it
        added.extend(one.task for one in members)

    made._add_all = add
    made.build(most, best)
    assert (added, made.stopped_early) == (sent, is_early)


def test_a_candidate_that_cannot_be_better_is_abandoned(monkeypatch):
    made, added = builder(parallel=1), []
    made.session.requests = [of_slot(0, task, 1, 2) for task in range(3)]
    made.names_slots, made.started, made._add_all = False, True, added.extend
    monkeypatch.setattr(Reconstruction, "can_exceed", lambda self, best, left: len(left) > 2)
    made.out.requests = [None]
    made.build(10**6, "best")
    assert len(added) == 1


@pytest.mark.parametrize(("best", "work", "untried", "is_early"), [
    ("best", 10, {0}, True), ("best", 9, {0}, False), ("best", 10, set(), False), (None, 10, {0}, False),
])  # fmt: skip
def test_a_later_candidate_stopped_early_if_choices_are_left_after_its_budget(best, work, untried, is_early):
    made = builder(parallel=1)
    made.started, made.work, made.out.untried_requests = True, work, untried
    made.build(9, best)
    assert made.stopped_early is is_early


@pytest.mark.parametrize(("members", "groups"), [(1, [None]), (2, [[], []]), (3, [[], [], []])])
def test_a_request_is_sent_in_a_group_only_if_another_was_active(members, groups):
    made, seen = builder(parallel=2), []
    made.lengths = [[AssumedLength(5)]] * members
    made._launched = lambda request, playing, kept, over: seen.append(playing and playing.texts)
    made._add_all([logged(task=task) for task in range(members)])
    assert seen == groups


def test_slots_that_were_used_before_the_log_are_filled_each_with_a_prompt_of_its_own():
    """Slot 2 was never used; the log begins with a request in slot 3, and slot 1 has none. The first request of slot 0
    shows 90 tokens."""
    made = builder(parallel=4)
    choice_ = SimpleNamespace(kind="slot_by_lru", read=SimpleNamespace(numbers={"t_last": -1}))
    unused = LoggedRequest(slot=2, task=6, n_tokens=5, tied=SimpleNamespace(choice=choice_))
    known = LoggedRequest(slot=0, task=7, n_tokens=100, held=90, cache_n=90)
    made.session.requests = [of_slot(3, 5, 1, 2), unused, known]
    made.next_of = {id(one): None for one in made.session.requests}
    made.names_slots = True
    made._fill_used_slots()
    assert made.lines == ["A90@0", f"B{OTHER_PROMPT}@1"] and made.fillers == 1
    assert made.begun == {0} and [*made.texts.slots] == [0, 1]


def test_contradicted_lines_of_running_requests_count_up_to_the_last_batch(monkeypatch):
    made = builder()
    line = SimpleNamespace
    monkeypatch.setattr(reconstruct, "last_batch", lambda request: 20)
    monkeypatch.setattr(reconstruct, "events_by_task", lambda events: ["a", "b", "c"])
    monkeypatch.setattr(reconstruct, "printed_lines", lambda request, engine, started: [
        line(number=number) for number in request.created])  # fmt: skip
    monkeypatch.setattr(reconstruct, "contradictions", lambda lines, found, printed: [*lines, printed])
    running = [(logged(created=created), SimpleNamespace(sent=SimpleNamespace(printed=1)))
               for created in ((5, 20, 21), (30,), (1, 2, 3))]  # fmt: skip
    assert made._contradicted(running, logged()) == 3 + 1 + 4
    assert made._contradicted(running[:1], logged()) == 3 and made._contradicted([], logged()) == 0


def test_after_the_budget_is_spent_no_later_request_is_added():
    """The two requests at the same time would be too much work; the one after them would not."""
    made, added = builder(parallel=2), []
    made.session.requests = [of_slot(0, 0, 1, 2), of_slot(0, 1, 10, 20), of_slot(1, 2, 15, 20), of_slot(0, 3, 30, 40)]
    made.names_slots, made.started = True, True
    made._add_all = lambda members: added.extend(one.task for one in members)
    made.build(3)
    assert (added, made.stopped_early) == ([0], True)


ERASED = {"erased": (300,), "is_whole": True, "cache_n": 290, "lcp": 300, "numbers": {"lcp": ProvenRange(300, 300)}}


@pytest.mark.parametrize(("fields", "state", "sent"), [
    ({}, {}, []), ({"held": 80}, {}, ["A80"]), ({"held": 30, "seen": 50}, {}, ["A50"]), ({"lcp": 60}, {}, ["A60"]),
    ({"restored": 70}, {}, ["A70"]), ({"restored_end": 40}, {}, ["A44"]),
    ({"held": 90, "restored": 40, "restored_end": 40}, {}, ["A44>a47"]),
    ({"held": 80, "is_loaded": True}, {}, []), ({"held": 80}, {"begun": {0}}, []),
    ({"held": 80}, {"begun": {1}}, ["A80"]),
    ({"cache_n": 33}, {}, ["A33"]), ({"cache_n": 33}, {"lines": ["C5"]}, []),
    ({"cache_n": 33}, {"lines": ["C5"], "fillers": 1}, ["A33"]),
    ({"checked": ((1, 2, 30),)}, {}, ["A7>a26"]), ({"checked": ((5, 5, 30),)}, {}, ["A10>a22"]),
    (ERASED, {}, ["A294", "A.B10"]), (ERASED, {"started": True}, ["A300"]),
])  # fmt: skip
def test_a_slot_is_filled_with_what_its_first_request_shows(fields, state, sent):
    """A checkpoint is made 4 tokens before the end of a prompt. A window that lost a checkpoint shows 32 tokens, and a
    threshold of 30 shows 31."""
    made, request = builder(parallel=1), LoggedRequest(**fields)
    made.next_of = {id(request): None}
    before = state.get("lines", [])
    for name, value in state.items():
        setattr(made, name, [*value] if name == "lines" else value)
    made._fill_slot(request)
    assert made.lines == [*before, *sent] and 0 in made.begun


def test_a_slot_is_filled_with_what_all_conversations_share():
    made, request = builder(parallel=1), LoggedRequest(held=80)
    made.next_of, made.texts.shared = {id(request): None}, SlotText().append_word("Z", 100)
    made.words["Z"] = 100
    made._send(["Z100"])
    made._fill_slot(request)
    assert made.lines == ["Z[:79].A1"]


def loaded(n_tokens, cache_n, held, shared=0):
    """Return a request that loads an entry; ``shared``: tokens that its slot had in common with the prompt."""
    exact = {"n_tokens": n_tokens, "cache_n": cache_n, "held": held}
    line = SimpleNamespace(number_of=lambda name: shared)
    tied = SimpleNamespace(similar=[line], of_cache=lambda kind: [])
    return LoggedRequest(**exact, numbers={name: ProvenRange(value, value) for name, value in exact.items()},
                         is_loaded=True, tied=tied)  # fmt: skip


@pytest.mark.parametrize(("requests", "sent", "shared"), [
    ([], [], 0), ([logged(n_tokens=200, cache_n=0)], [], 0), ([loaded(200, 100, 100)], ["A100", "B64"], 0),
    ([loaded(200, 100, 150)], ["A104>a47", "B64"], 0), ([loaded(200, 100, 103)], ["A103", "B64"], 0),
    ([loaded(200, 100, 104)], ["A104", "B64"], 0), ([loaded(200, 100, 150, 30)], ["A104>a47", "A[:30].B34"], 30),
    ([loaded(200, 100, 150, 30), loaded(900, 400, 400)], ["A104>a47", "A[:30].B370", "A[:30].C34"], 30),
    ([loaded(200, 100, 150), loaded(900, 400, 400, 70)], ["A104>a47", "B400", "B[:63].C1"], 70),
    ([LoggedRequest(n_tokens=90, numbers={"end": ProvenRange(95, 95)}), loaded(200, 100, 100)], ["A100"], 0),
    ([LoggedRequest(n_tokens=90, numbers={"end": ProvenRange(95, 100)}), loaded(200, 100, 100)], [], 0),
])  # fmt: skip
def test_entries_from_before_the_log_are_sent_with_what_they_share(requests, sent, shared):
    """A request that resumes within an entry shows a checkpoint 4 tokens before the end of a prompt. Another prompt of
    64 tokens follows if the first request of the log loaded an entry."""
    made = builder(parallel=1)
    made.session.requests = requests
    made.next_of = dict(zip(map(id, requests), [*requests[1:], None], strict=False))
    made._fill_prompt_cache()
    assert (made.lines, made.texts.shared.size) == (sent, shared)


class Compared:
    """A builder with two running requests, whose lines and events are prepared."""

    def __init__(self, monkeypatch):
        self.made, self.asked = builder(), []
        monkeypatch.setattr(reconstruct, "events_by_task", lambda events: ["events 1", "events 2"])
        monkeypatch.setattr(reconstruct, "printed_lines", lambda one, engine, started: [one.task, engine, started])
        monkeypatch.setattr(reconstruct, "early_lines", lambda lines, n_tokens: ["early", n_tokens, *lines])
        monkeypatch.setattr(reconstruct, "contradictions", lambda *given: self.asked.append(given) or given)
        self.requests = [ReconstructedRequest(LoggedRequest(task=task, n_tokens=9)) for task in (5, 6)]
        self.made.running = [(one, SimpleNamespace(printed={"n": at})) for at, one in enumerate(self.requests)]


def test_answers_are_compared_with_all_lines_and_only_once(monkeypatch):
    compared = Compared(monkeypatch)
    compared.made._check_answers()
    assert [one.contradicted for one in compared.requests] == compared.asked == [
        ([5, "llama_cpp", False], "events 1", {"n": 0}), ([6, "llama_cpp", False], "events 2", {"n": 1})]  # fmt: skip
    assert compared.made.running == []


def test_prompts_without_answers_are_compared_with_their_first_lines(monkeypatch):
    compared = Compared(monkeypatch)
    compared.made._check_prompts()
    assert [one.contradicted for one in compared.requests] == [
        (["early", 9, 5, "llama_cpp", False], "events 1", {"n": 0}),
        (["early", 9, 6, "llama_cpp", False], "events 2", {"n": 1})]  # fmt: skip


@pytest.mark.parametrize(("over", "asked", "after"), [
    ((), [], 0), (("A5", "B6"), [("base", ["A5", "B6", "C7"], ["A5", "B6"])], 4)])
def test_a_request_is_launched_when_those_before_it_have_ended(over, asked, after):
    calls = []
    made = SimpleNamespace(rounds=lambda *given: calls.append(given) or 4)
    group = _RequestGroup(["A5", "B6", "C7"], "base", 9)
    found = group.launched_after(made, [(None, SimpleNamespace(text=text)) for text in over])
    assert (found, calls) == (group._replace(after=after), asked)


def test_the_checkpoints_of_the_request_sent_last_are_known_by_their_tokens():
    made = builder(model="GGGA", parallel=1)
    assert made._created() == set()
    made.words |= {"A": 100, "B": 300}
    made._send(["A100"])
    first = made._created()
    made._send(["B300"])
    assert first == {100 - END} and made._created() == {300 - END}
    several = builder(model="GGGA", parallel=2)
    several.words |= {"A": 100, "B": 300}
    several._send(["A100", "B300{together}"])
    assert several._created() == {300 - END}


def test_another_prompt_in_a_used_slot_shares_all_but_its_last_token():
    """Slot 2 was never used when the second request chose it, so that slots 0 and 1 had been used."""
    made = builder(parallel=4)
    choice_ = SimpleNamespace(kind="slot_by_lru", read=SimpleNamespace(numbers={"t_last": -1}))
    unused = LoggedRequest(slot=2, task=6, n_tokens=5, tied=SimpleNamespace(choice=choice_))
    made.session.requests = [of_slot(3, 5, 1, 2), unused]
    made.next_of = {id(one): None for one in made.session.requests}
    made.names_slots, made.words = True, {"Z": 100}
    made.texts.shared = SlotText().append_word("Z", 100)
    made._fill_used_slots()
    kept = OTHER_PROMPT - 1
    assert made.lines == [f"Z[:{kept}].A1@0", f"Z[:{kept}].B1@1"]


@pytest.mark.parametrize(("n_past", "contradicted"), [(0, []), (33, [3])])
def test_the_lines_up_to_the_end_of_a_prompt_may_contradict_a_choice(n_past, contradicted):
    """Those of the answer are compared when it was generated."""
    lines = ["launch_slot_: id  0 | task 7 | processing task, is_child = 0",
             "update_slots: id  0 | task 7 | new prompt, n_ctx_slot = 131072, n_keep = 0, task.n_tokens = 70",
             f"update_slots: id  0 | task 7 | cached n_tokens = {n_past}, memory_seq_rm [{n_past}, end)",
             "     release: id  0 | task 7 | stop processing: n_tokens = 99, truncated = 1"]  # fmt: skip
    made = builder(*(f"slot {line}" for line in lines), parallel=1)
    found = made._try(made.session.requests[0], choice(0, 70), "A", None, None)
    assert [line.line for line in found.contradicted] == contradicted


@pytest.mark.parametrize(("texts", "after", "slot", "sent"), [
    ([], 0, 1, "B40>b1"), ([], 0, 0, "B40>b1@0"), ([], 2, 1, "B40>b1"), (["A30>a1"], 0, 1, "B40>b1@1{together}"),
    (["A30>a1"], 0, 0, "B40>b1{together}"), (["A30>a1"], 2, 0, "B40>b1{together+2}"),
    (["A30>a1"], 2, 1, "B40>b1@1{together+2}"),
])  # fmt: skip
def test_requests_of_a_group_are_sent_after_each_other_to_the_server_before_them(texts, after, slot, sent):
    """An idle server chooses slot 1 first; a slot that the log shows is named if the server would choose another."""
    made = builder(parallel=2)
    made.names_slots, made.words = True, {"A": 30, "a": 1}
    group = _RequestGroup(texts, made._copy(), after)
    made._send(["C9"])                                                   # not sent to the server of the group
    found = made._try(LoggedRequest(slot=slot), choice(0, 40), "B", group, None)
    assert (found.text, found.sent.slot, made.words) == (sent, slot, {"A": 30, "a": 1})


@pytest.mark.parametrize(("lcp", "sent"), [(0, "Z[:303].A1"), (200, "Z[:303].A1"), (320, "Z[:319]>a17")])
def test_a_slot_is_filled_up_to_the_end_of_the_prompt_that_left_its_last_checkpoint(monkeypatch, lcp, sent):
    """A checkpoint at 300 is made by a prompt of 304 tokens, of which all but the last are shared."""
    monkeypatch.setattr(reconstruct, "earlier_checkpoints", lambda request, following: [300])
    made = builder(parallel=1)
    made.texts.shared, made.words["Z"] = SlotText().append_word("Z", 1_000), 1_000
    made._send(["Z1000"])
    made._fill_slot(LoggedRequest(lcp=lcp))
    assert made.lines == [sent]


@pytest.mark.parametrize(("n_tokens", "sent"), [(100, ["A100"]), (99, ["A99"])])
def test_a_checkpoint_within_an_earlier_conversation_is_left_by_a_prompt_that_ends_there(monkeypatch, n_tokens, sent):
    """A checkpoint at 96 is made by a prompt of 100 tokens."""
    asked = []
    earlier = SimpleNamespace(loaded_by=logged(), n_tokens=n_tokens, resumed=96, shared=0)
    monkeypatch.setattr(reconstruct, "earlier_conversations", lambda requests: [earlier])
    monkeypatch.setattr(reconstruct, "listed_checkpoints", lambda request, following: [])
    monkeypatch.setattr(reconstruct, "prompt_between", lambda request: 0)
    monkeypatch.setattr(reconstruct, "earlier_prompts", lambda *given: asked.append(given) or ([n_tokens], 1))
    made = builder(parallel=1)
    made.session.requests, made.next_of = [logged()], {}
    made._fill_prompt_cache()
    assert asked == [(earlier.loaded_by, n_tokens, END, [96] if n_tokens == 100 else [])] and made.lines == sent
    assert next(made.word_names) == "B"                                  # no prompt follows


def test_the_answer_to_a_request_without_new_text_can_be_continued():
    made = builder(parallel=1)
    base = held(made, A=100)
    request = ReconstructedRequest(LoggedRequest(predicted_n=10))
    found = made._try(request.logged, choice(70, 70)._replace(base=base), "B", None, None)
    made._take(request, found)
    more = made._try(LoggedRequest(), choice(79, 90)._replace(base=found.held), "C", None, None)
    assert (more.text, more.sent.cache_n, more.sent.prompt_n) == ("A[:70].b[:9].C11>c1", 79, 11)


def test_a_choice_is_compared_with_the_events_of_its_own_request():
    """The first request of the group reuses nothing, the second one 20 tokens of slot 1."""
    lines = ["launch_slot_: id  1 | task 7 | processing task, is_child = 0",
             "update_slots: id  1 | task 7 | cached n_tokens = 20, memory_seq_rm [20, end)"]  # fmt: skip
    [request] = builder(*(f"slot {line}" for line in lines)).session.requests
    made = builder(parallel=2)
    base = held(made, A=100)
    made.words |= {"C": 30, "c": 1}
    group = _RequestGroup(["C30>c1"], made._copy())
    made._send(["D9"])
    found = made._try(request, choice(20, 40)._replace(base=base), "B", group, None)
    assert (found.text, found.sent.cache_n, found.contradicted) == ("A[:20].B20>b1{together}", 20, [])
    inspection = made.stage.server.inspection
    assert [len(inspection.tokens_of(slot)) for slot in (0, 1)] == [30, 40]            # and not the prompt D
    made._sent, made.events = lambda *given: ("A", found.sent), []
    assert made._try(request, choice(20, 40)._replace(base=base), "B", group, None).contradicted == []


def test_answers_before_a_group_are_compared_with_their_own_requests():
    made, compared = builder(parallel=1), []
    made._check_answers = lambda: compared.append([*made.running])
    made.are_sent, made.running, made.lengths = True, ["the request before"], [[AssumedLength(5)]]
    made._launched = lambda request, playing, kept, over: None
    made._add_all([logged()])
    assert compared[0] == ["the request before"] and made.running == []


@pytest.mark.parametrize(("at", "marks"), [(0, []), (1, [(1,)])])
def test_a_message_may_begin_at_the_second_token_of_a_prompt(at, marks):
    made = builder()
    made._resumption = lambda request: at
    assert [one.marks for one in made._resumed_later(logged(), [choice(n_tokens=100)])] == marks


def requests_of(*fields):
    """Return a session with these requests."""
    return LogSession("llama_cpp", [LoggedRequest(**one) for one in fields])


@pytest.mark.parametrize(("fields", "began_empty", "names_slots"), [
    ([], False, False), ([{"task": 0}, {"task": 3}], True, False), ([{"task": 3}, {"task": 0}], False, False),
    ([{}, {"slot": 1}], False, True), ([{}, {"slot": 1}, {"slot": 2}], False, True), ([{"slot": 2}], False, False),
    ([{"chosen": "lcp"}, {"chosen": "id"}], False, True),
])  # fmt: skip
def test_the_first_request_shows_an_empty_server_and_two_slots_or_a_given_one_must_be_named(
    fields, began_empty, names_slots
):
    made = ScenarioBuilder(requests_of(*fields), LATEST, "A", {})
    assert (made.texts.began_empty, made.names_slots) == (began_empty, names_slots)


def test_choices_without_cache_and_with_a_message_are_made_of_the_simplest_one():
    """A later request resumes at 300; this one reused nothing of what it shares with its slot."""
    made, tried = builder(), []
    request = ReconstructedRequest(in_slot(made, logged(cache_n=0, lcp=10), logged(cache_n=300, lcp=500)))
    made.out.requests.append(request)
    made._lengths_of, made.most = lambda request: [], 10**6
    made.texts.choices = lambda logged, lengths: iter([choice(10), choice(20), choice(30)])
    made._try = lambda logged, choice, *more: tried.append((choice.lcp, choice.marks, choice.is_cached))
    assert made._best(request, None) is None
    assert tried == [(10, (300,), True), (10, (), True), (10, (), False), (20, (), True), (30, (), True)]


def test_a_first_candidate_spends_half_of_the_work_on_choices_and_always_simulates_a_request():
    session = requests_of({"task": 0, "n_tokens": 5, "cache_n": 0}, {"task": 1, "n_tokens": 5, "cache_n": 0})
    made = ScenarioBuilder(session, LATEST, "A", {"parallel": 1})
    one = ScenarioBuilder(requests_of({"task": 0, "n_tokens": 5, "cache_n": 0}), LATEST, "A", {"parallel": 1})
    assert one.build(0).line == "A5>a1" and not one.stopped_early
    made.build(2 * one.work)
    assert (made.most, made.out.line, made.stopped_early) == (one.work, "A5>a1/B5>b1", False)
    made = ScenarioBuilder(session, LATEST, "A", {"parallel": 1})
    made.build(one.work)                        # the second request of an unknown answer owes nothing
    assert (made.out.line, made.stopped_early) == ("A5>a1/B5>b1", False)
    made.build(7, Reconstruction(LATEST, "A", {}))
    assert made.most == 7


@pytest.mark.parametrize(("requests", "finished"), [(1, 0), (2, 1), (3, 1)])
def test_the_answers_of_the_last_group_are_generated_if_it_has_several_requests(requests, finished):
    """The prompt of one may end after the prompt of the last; a single prompt is evaluated already."""
    made, calls = builder(parallel=4), []
    made.session.requests = [of_slot(at, at, 1 + at, 9) for at in range(requests)]
    made.names_slots = made.started = True
    made._add_all = lambda members: setattr(made, "running", [*members])
    made._finish_answers, made._check_prompts = lambda: calls.append(len(made.running)), lambda: None
    made.build(10**6)
    assert calls == [requests] * finished


def test_a_request_is_over_when_its_last_line_stands_before_the_first_one_of_the_next():
    made, seen = builder(parallel=3), []
    members = [logged(slot=at, task=at, lines=lines) for at, lines in enumerate([(1, 10), (2, 20), (8, 15), (10, 30)])]
    made.lengths = [[AssumedLength(5)]] * 4

    def launched(request, playing, running, over):
        seen.append(([one.task for one, _ in running], [one.task for one, _ in over]))
        return SimpleNamespace(text="", held=SlotText(), sent=SimpleNamespace(slot=request.logged.slot))

    made._launched, made._take, made._fill_slot = launched, lambda request, found: None, lambda logged: None
    made._add_all(members)
    assert seen == [([], []), ([0], []), ([0, 1], []), ([0, 1, 2], [])]


def test_a_message_at_every_new_checkpoint_is_explained_in_a_group():
    """It agrees with the log but for a line, and is nearer than the choice without it."""
    for created, best in (({60}, (1, 60)), ({60, 90}, (1, 60)), ({90}, (1,))):
        choices = Choices({1: 99}, marked=[(60,)], created=created)
        assert choices.best(playing="group")[0] == best
