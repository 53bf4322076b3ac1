"""Numbers of a request that follow from its lines."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.shared.log_grammar import Line, LogGrammar, ParsedLine, PrintedNumber
from cachesim.tools.server_logs.derivations import (
    _combine,
    _empty_cache,
    _evaluated,
    _in_cache,
    _is_confirmed,
    _is_unfinished,
    _lengths,
    _longer,
    _lost,
    _lower,
    _lowered,
    _parts,
    _restored,
    _same_tokens,
    numbers_of,
)
from cachesim.tools.server_logs.found_numbers import FoundNumbers
from cachesim.tools.server_logs.log_reader import read_session
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.read_lines import LineSieve, ReadLine
from cachesim.tools.server_logs.recognise import grammars
from cachesim.tools.server_logs.tied_requests import TiedRequest

LAUNCH = "slot launch_slot_: id  0 | task 7 | processing task"
PROMPT = "slot update_slots: id  0 | task 7 | new prompt, n_ctx_slot = 128, n_keep = 0, n_prompt_tokens = {}"
TIMES = """slot print_timing: id  0 | task 7 |
prompt eval time =     900.00 ms /    74 tokens (    2.22 ms per token,   449.76 tokens per second)
       eval time =       9.00 ms /     1 tokens (   26.90 ms per token,    37.18 tokens per second)
      total time =     909.00 ms /    75 tokens"""


def numbers(*lines):
    """Return the numbers of the only request of these lines."""
    session = read_session("llama_cpp", grammars()["llama_cpp"], "\n".join(lines).splitlines())
    [request] = session.derived
    return {name: (one.low, one.high) for name, one in request.numbers.items()}, request.clashes


@pytest.mark.parametrize(("printed", "known"), [(127, (127, 127)), (128, None), (138, None)])
def test_a_prompt_without_room_in_its_slot_may_have_been_cut_off(printed, known):
    found, clashes = numbers(LAUNCH, PROMPT.format(printed))
    assert (found.get("n_tokens"), clashes) == (known, ())


def test_a_prompt_that_was_cut_off_contradicts_nothing():
    found, clashes = numbers(LAUNCH, PROMPT.format(138), TIMES)
    assert (found["prompt_n"], clashes) == ((74, 74), ())


def test_a_refused_prompt_has_its_length():
    size = "request (138 tokens) exceeds the available context size (128 tokens)"
    refused = f"srv    send_error: task id = 7, error: {size}"
    found, _ = numbers(LAUNCH, PROMPT.format(138), refused)
    assert found["n_tokens"] == (138, 138)


def test_the_first_task_of_a_server_reuses_nothing_also_without_its_launch():
    first = TIMES.replace("task 7", "task 0")
    assert (numbers(first)[0]["cache_n"], numbers(first)[0]["n_tokens"]) == ((0, 0), (74, 74))
    assert "cache_n" not in numbers(TIMES)[0]


def test_a_prompt_that_the_excerpt_does_not_end_is_not_known_to_be_evaluated():
    batch = "slot update_slots: id  0 | task 0 | n_tokens = 6144, memory_seq_rm [6144, end)"
    assert not {"cache_n", "prompt_n"} & {*numbers(batch)[0]}


@pytest.mark.parametrize(("n_past", "rest", "counts"), [
    (40, 9, (49, 40, 9)), (40, 1, (41, 40, 1)), (40, 0, (40, 39, 1)), (0, 9, (9, 0, 9)),
])  # fmt: skip
def test_at_least_the_last_token_of_a_prompt_is_evaluated(n_past, rest, counts):
    found, _ = numbers("slot 0 is processing [task id: 7]",
                       f"slot 0 : in cache: {n_past} tokens | to process: {rest} tokens")  # fmt: skip
    assert [found[name] for name in ("n_tokens", "cache_n", "prompt_n")] == [(count, count) for count in counts]


@pytest.mark.parametrize(("entries", "known"), [(0, (0, 0)), (1, None)])
def test_nothing_is_reused_from_an_empty_cache(entries, known):
    line = SimpleNamespace(number=3, number_of=lambda name: entries)
    request = SimpleNamespace(of=lambda *kinds: [line] if "fetch" in kinds else [])
    found = FoundNumbers()
    _empty_cache(request, found)
    number = found.get("cache_n")
    assert (number and (number.low, number.high)) == known


@pytest.mark.parametrize(("low", "slack", "found"), [(9, 0, 9), (9, 2, 7), (2, 2, 0), (1, 2, 0), (0, 1, 0)])
def test_a_count_may_be_lower_by_the_slack_but_not_below_nothing(low, slack, found):
    assert _lower(ProvenRange(low, 12), slack) == ProvenRange(found, 12)


def test_an_unknown_count_stays_unknown():
    assert _lower(None, 2) is None


HEAD = "slot update_slots: id  0 | task 7 | "
RESTORED = HEAD + "restored context checkpoint (pos_min = {}, pos_max = 99, n_tokens = 100, n_past = 100, size = 1 MiB)"
WHOLE = HEAD + "need to evaluate at least 1 token for each active slot (n_past = 100, task.n_tokens() = 100)"
LOWERED = HEAD + "n_past was set to 99"
REFUSED = HEAD + "failed to truncate tokens with position >= 99 - clearing the memory"


def times(prompt_n):
    return TIMES.replace("74 tokens (    2.22", f"{prompt_n} tokens (    2.22").replace("75", f"{prompt_n + 1}")


@pytest.mark.parametrize(("lines", "found"), [
    ([RESTORED.format(0), WHOLE], {"n_tokens": 100, "cache_n": 99, "prompt_n": 1}),
    ([RESTORED.format(0), LOWERED], {"cache_n": 99}),
    ([RESTORED.format(98), WHOLE], {"n_tokens": 100, "cache_n": 99, "prompt_n": 1}),
    ([RESTORED.format(99), WHOLE], {"n_tokens": 100}),                       # a recurrent state may refuse the removal
    ([RESTORED.format(0), WHOLE, REFUSED], {"n_tokens": 100, "cache_n": 0, "prompt_n": 100}),
    ([WHOLE], {"n_tokens": 100}),
])  # fmt: skip
def test_a_restored_prompt_that_is_whole_keeps_all_but_its_last_token(lines, found):
    assert numbers(LAUNCH, *lines) == ({name: (value, value) for name, value in found.items()}, ())


def counts(**values):
    """Return these numbers, each proved by a line of its own, from 1."""
    found = FoundNumbers()
    for line, (name, (low, high)) in enumerate(values.items(), 1):
        found.add(name, ProvenRange(low, high, frozenset({line})))
    return found


@pytest.mark.parametrize(("values", "proof"), [
    ({}, None), ({"n_tokens": (100, 200)}, None), ({"n_tokens": (101, 200)}, {1}), ({"lcp": (100, 100)}, None),
    ({"lcp": (101, 101)}, {1}), ({"n_tokens": (90, 200), "lcp": (101, 101)}, {2}),
    ({"prompt_n": (0, 0)}, None), ({"prompt_n": (1, 1)}, None), ({"prompt_n": (2, 2)}, {1}),
    ({"prompt_n": (99, 99)}, {1}), ({"prompt_n": (100, 100)}, None), ({"prompt_n": (101, 101)}, {1}),
    ({"prompt_n": (101, 102)}, None),
])  # fmt: skip
def test_a_prompt_is_longer_than_a_restored_position(values, proof):
    """Else one token is evaluated, the last, or all of them."""
    assert _longer(TiedRequest(0, 7, []), counts(**values), 100) == proof


@pytest.mark.parametrize(("thold", "known"), [(100, False), (101, True)])
def test_a_threshold_after_the_restored_position_shows_a_longer_prompt(thold, known):
    found, _ = numbers(LAUNCH, f"{HEAD}checking checkpoint with [0, 99] against {thold}...", RESTORED.format(0))
    assert found.get("cache_n") == ((100, 100) if known else None)


AFTER_100 = HEAD + "n_tokens = 100, memory_seq_rm [100, end)"


def test_a_prompt_whose_other_lines_are_in_the_excerpt_was_not_lowered():
    assert numbers(LAUNCH, RESTORED.format(0), AFTER_100)[0] == {"cache_n": (100, 100)}


SHIFT = HEAD + "slot context shift, n_keep = 0, n_left = 127, n_discard = {}"
END = "slot      release: id  0 | task 7 | stop processing: n_tokens = {}, truncated = {}"


@pytest.mark.parametrize(("discarded", "end", "n_tokens"), [
    ((63,), 100, 163), ((33, 30), 40, 103), ((34,), 40, 74), ((33,), 40, None), (("many",), 100, None),
    ((63, "many"), 100, None),
])  # fmt: skip
def test_discarded_tokens_are_part_of_the_prompt(discarded, end, n_tokens):
    """The slot holds all tokens but the last of the answer, and 74 tokens of the prompt were evaluated."""
    found, clashes = numbers(LAUNCH, *map(SHIFT.format, discarded), TIMES, END.format(end, 1))
    assert (found.get("n_tokens"), clashes) == (None if n_tokens is None else (n_tokens, n_tokens), ())
    assert found.get("cache_n") == (None if n_tokens is None else (n_tokens - 74, n_tokens - 74))


def test_the_length_of_a_shifted_prompt_follows_from_its_shifts_and_an_answer():
    [request] = read_session("llama_cpp", grammars()["llama_cpp"], "\n".join([
        LAUNCH, *map(SHIFT.format, (33, 30)), TIMES, END.format(40, 1)]).splitlines()).derived  # fmt: skip
    assert {2, 3} < request.numbers["n_tokens"].lines
    assert "n_tokens" not in numbers(LAUNCH, SHIFT.format(63), EMPTY.format(74, 74), END.format(100, 1))[0]


def test_a_prompt_that_was_cut_off_is_not_as_long_as_its_discarded_tokens_say():
    cut = HEAD + "input truncated, n_ctx = 128, n_keep = 0, n_left = 128, n_prompt_tokens = 80"
    assert numbers(LAUNCH, cut, SHIFT.format(63), TIMES, END.format(100, 1))[0]["n_tokens"] == (80, 80)


MATCHED = HEAD + "n_past = {}, slot.prompt.tokens.size() = {}, seq_id = 0, pos_min = 0, n_swa = 0"
BATCH = HEAD + "n_tokens = 0, memory_seq_rm [0, end)"
CANCEL = "srv          stop: cancel task, id_task = 7"


@pytest.mark.parametrize(("held", "clashes"), [(91, []), (90, []), (89, ["lcp"])])
def test_a_prefix_is_not_longer_than_what_the_slot_held(held, clashes):
    found, clash = numbers(LAUNCH, MATCHED.format(90, held))
    assert [name for name, *_ in clash] == clashes
    assert found == ({} if clashes else {"lcp": (90, 90), "held": (held, held)})


@pytest.mark.parametrize(("lines", "lost"), [
    ([CANCEL, END.format(50, 0)], (50, 50)), ([CANCEL, END.format(90, 0)], (90, 90)),
    ([CANCEL, END.format(91, 0)], (90, 90)), ([END.format(50, 0)], (90, 90)), ([CANCEL], (90, 90)),
    ([CANCEL, END.format(0, 0)], None),
])  # fmt: skip
def test_of_a_cancelled_prompt_no_more_is_lost_than_the_slot_holds(lines, lost):
    assert numbers(LAUNCH, MATCHED.format(90, 120), BATCH, *lines)[0].get("lost") == lost


SIZED = PROMPT.format(100).replace("n_prompt_tokens", "task.n_tokens")
DONE = HEAD + "prompt done, n_tokens = 100, batch.n_tokens = 4"
HALF, ALL = (HEAD + f"prompt processing progress, n_tokens = {n}, batch.n_tokens = 8, progress = {share}"
             for n, share in ((50, "0.50"), (100, "1.00")))  # fmt: skip


@pytest.mark.parametrize(("lines", "is_evaluated"), [
    ([], True), ([END.format(100, 0)], True), ([END.format(99, 0)], False), ([CANCEL], False),
    ([CANCEL, END.format(99, 0)], False), ([CANCEL, END.format(100, 0)], True), ([CANCEL, DONE], True),
    ([DONE, END.format(99, 0)], True), ([HALF, CANCEL], False), ([ALL, CANCEL], True),
    ([SHIFT.format(63), END.format(60, 1)], True), ([CANCEL, SHIFT.format(63), END.format(60, 1)], False),
])  # fmt: skip
def test_the_rest_of_a_prompt_is_evaluated_unless_the_client_may_have_hung_up(lines, is_evaluated):
    found, clashes = numbers(LAUNCH, SIZED, BATCH, *lines)
    assert (found.get("prompt_n"), clashes) == ((100, 100) if is_evaluated else None, ())


def test_counts_that_are_words_prove_nothing():
    for line in ("in cache: many tokens | to process: 9 tokens", "in cache: 9 tokens | to process: many tokens"):
        assert numbers("slot 0 is processing [task id: 7]", f"slot 0 : {line}") == ({}, ())


EMPTY = """slot print_timing: id  0 | task 7 |
prompt eval time =       9.00 ms /     {} tokens (    2.22 ms per token,   449.76 tokens per second)
       eval time =       9.00 ms /     0 tokens (    0.00 ms per token,      inf tokens per second)
      total time =      18.00 ms /     {} tokens"""


@pytest.mark.parametrize(("evaluated", "n_tokens"), [(0, None), (1, (50, 50)), (2, (50, 50))])
def test_a_prompt_without_an_answer_is_what_the_slot_holds_unless_it_is_empty(evaluated, n_tokens):
    found, clashes = numbers(LAUNCH, EMPTY.format(evaluated, evaluated), END.format(50, 0))
    assert (found.get("n_tokens"), found["predicted_n"], clashes) == (n_tokens, (0, 0), ())


@pytest.mark.parametrize(("end", "truncated", "n_tokens"), [
    (80, 0, (80, 80)), (80, 1, None), (74, 0, (74, 74)), (73, 0, None), (75, 0, (75, 75)),
])  # fmt: skip
def test_a_prompt_is_what_the_slot_holds_at_the_end_without_the_answer(end, truncated, n_tokens):
    """The answer has one token, which is not in the slot, and 74 tokens were evaluated."""
    found, _ = numbers(LAUNCH, TIMES, END.format(end, truncated))
    assert found.get("n_tokens") == n_tokens
    assert found.get("cache_n") == (None if n_tokens is None else (n_tokens[0] - 74, n_tokens[0] - 74))


def test_the_answer_is_what_the_slot_holds_after_the_prompt_and_one_more():
    assert numbers(LAUNCH, SIZED, BATCH, END.format(105, 0))[0]["predicted_n"] == (6, 6)
    assert "predicted_n" not in numbers(LAUNCH, SIZED, BATCH, END.format(100, 0))[0]
    assert "predicted_n" not in numbers(LAUNCH, SIZED, BATCH, END.format(105, 1))[0]


def test_at_least_the_tokens_of_the_last_progress_line_are_evaluated():
    line = HEAD + "prompt processing, n_tokens = {}, progress = {}, t = 3.00 s"
    [request] = read_session("llama_cpp", grammars()["llama_cpp"], [
        LAUNCH, line.format(60, "0.60")]).derived  # fmt: skip
    known = request.numbers["prompt_n"]
    assert (known.low, known.high, known.lines) == (60, None, {2})


def known_lines(*texts):
    """Return a request with these lines, numbered from 1."""
    grammar = grammars()["llama_cpp"]
    return TiedRequest(0, 7, [ReadLine(number, grammar.read(text, 0, 7), text) for number, text in enumerate(texts, 1)])


CHECKED = "checking checkpoint with [5, 9] against {}..."
DONE_PART = "prompt processing, n_tokens = {}, progress = {}, t = 3.00 s"


@pytest.mark.parametrize(("texts", "values", "proof"), [
    ([CHECKED.format(101)], {}, {1}), ([CHECKED.format(100)], {}, None),
    ([CHECKED.format(9), CHECKED.format(200)], {}, {2}),
    ([DONE_PART.format(60, "0.60")], {}, None), ([DONE_PART.format(60, "0.61")], {}, {1}),
    ([DONE_PART.format(60, "0.60"), DONE_PART.format(70, "0.65")], {}, {2}),
    ([DONE_PART.format(60, "0.61"), CHECKED.format(101)], {}, {2}),
    ([DONE_PART.format(60, "0.61")], {"lcp": (101, 101)}, {1}),
    ([DONE_PART.format(60, "0.60")], {"prompt_n": (50, 50)}, {1}),
])  # fmt: skip
def test_lines_that_show_a_longer_prompt(texts, values, proof):
    assert _longer(known_lines(*texts), counts(**values), 100) == proof


@pytest.mark.parametrize(("lcp", "cache_n", "lost"), [
    ((50, 50), (40, 40), (10, 10)), ((50, 60), (40, 50), (0, 20)), ((49, 60), (40, 50), None),
    ((50, 50), (50, 50), None),
    ((50, 51), (50, 50), (0, 1)), ((50, None), (40, 40), None), ((50, 50), (40, None), None),
    ((40, 40), (50, 50), None),
    ((0, 0), (0, 0), None), ((5, 5), (0, 0), (5, 5)), ((0, 5), (0, 0), (0, 5)),
])  # fmt: skip
def test_lost_tokens_are_those_of_the_prefix_that_were_not_reused(lcp, cache_n, lost):
    found = counts(lcp=lcp, cache_n=cache_n)
    _lost(known_lines("processing task"), found)
    one = found.get("lost")
    assert (None if one is None else (one.low, one.high)) == lost and found.clashes == []


@pytest.mark.parametrize(("lcp", "end", "lost"), [
    ((50, 90), (40, 50), (50, 50)), ((51, 90), (40, 50), (40, 50)), ((0, 90), (0, 50), (0, 50)),
    ((50, 90), (40, None), (50, 90)),
])  # fmt: skip
def test_of_a_prefix_of_unknown_length_a_cancelled_request_lost_what_its_slot_has(lcp, end, lost):
    request = SimpleNamespace(is_cancelled=True)
    found = counts(lcp=lcp, end=end, cache_n=(0, 0))
    _lost(request, found)
    assert (found.get("lost").low, found.get("lost").high) == lost


@pytest.mark.parametrize(("first", "last", "is_known"), [(99, 99, True), (100, 100, False), (99, 100, True)])
def test_a_checkpoint_of_one_position_must_end_before_the_restored_one(first, last, is_known):
    line = f"restored context checkpoint (pos_min = {first}, pos_max = {last}, n_tokens = 101, n_past = 100, " \
           "size = 1 MiB)"  # fmt: skip
    found = counts(n_tokens=(150, 150))
    _restored(known_lines(line), found, grammars()["llama_cpp"])
    assert ("cache_n" in found.numbers) is is_known


def test_a_threshold_without_a_number_shows_no_longer_prompt():
    assert _longer(known_lines(CHECKED.format("many")), counts(), 0) is None


@pytest.mark.parametrize(("made", "prompt_n", "length"), [
    ((1, 1), None, (9, 9)), ((0, 0), None, None), ((0, 0), (1, 1), (9, 9)), ((0, 0), (0, 0), None)])
def test_a_prompt_with_an_answer_or_an_evaluated_token_is_what_the_slot_holds(made, prompt_n, length):
    request = known_lines("stop processing: n_tokens = 9, truncated = 0")
    found = counts(end=(9, 9), predicted_n=made, **({} if prompt_n is None else {"prompt_n": prompt_n}))
    _lengths(request, found, 0)
    known = found.get("n_tokens")
    assert (known and (known.low, known.high)) == length


@pytest.mark.parametrize(("before", "known"), [(None, None), ("n_past", 9), ("launch", 9)])
def test_of_lines_of_which_the_first_counts_only_that_just_after_the_start_gives_a_number(before, known):
    gives = (PrintedNumber("batch", "cache_n", ("p0",), first=True),)
    kinds = [("batch", {"p0": 9}), ("batch", {"p0": 8})]
    lines = [*([] if before is None else [(before, {})]), *kinds]
    made = [ReadLine(at, ParsedLine(Line(kind, "x"), 0, 7, numbers), "x") for at, (kind, numbers) in enumerate(lines)]
    derived = numbers_of(TiedRequest(0, 7, made), LogGrammar((Line("batch", "x"),), gives=gives), LineSieve())
    assert derived.clashes == () and ("cache_n" in derived.numbers) is (known is not None)
    assert known is None or derived.numbers["cache_n"].low == known


def test_a_checkpoint_that_is_not_within_the_prompt_hides_no_other():
    line = "restored context checkpoint (pos_min = 0, pos_max = {}, n_tokens = {}, n_past = {}, size = 1.0 MiB)"
    found = counts(n_tokens=(80, 80))
    _restored(known_lines(line.format(99, 100, 100), line.format(49, 50, 50)), found, grammars()["llama_cpp"])
    assert (found.get("cache_n").low, found.get("cache_n").high) == (50, 50)
    assert found.get("cache_n").lines == found.get("n_tokens").lines | {2}


@pytest.mark.parametrize(("printed", "is_confirmed"), [
    ({"n_tokens": 9}, True), ({"n_tokens": 12, "batch": 3}, True), ({"n_tokens": 12}, False), ({"batch": 3}, False)])
def test_progress_shows_after_how_many_tokens_an_evaluation_began(printed, is_confirmed):
    nothing = TiedRequest(0, 7, [ReadLine(4, ParsedLine(Line("progress", "x"), 0, 7, {}), "x")])
    assert not _is_confirmed(nothing, 1)
    request = TiedRequest(0, 7, [ReadLine(4, ParsedLine(Line("progress", "x"), 0, 7, printed), "x")])
    assert _is_confirmed(request, 9) is is_confirmed


@pytest.mark.parametrize(("same_tokens", "kept", "printed", "are_same"), [
    ((), None, (5, 5), True), ((), 4, (5, 6), True), (("prefix", "a", "b"), None, (5, 5), False),
    (("prefix", "a", "b"), 0, (5, 6), True), (("prefix", "a", "b"), 5, (5, 5), True),
    (("prefix", "a", "b"), 5, (5, 6), False), (("prefix", "a", "b"), 4, (5, 5), False)])
def test_tokens_are_the_same_if_as_many_are_printed_for_slot_and_prompt(same_tokens, kept, printed, are_same):
    line = ReadLine(4, ParsedLine(Line("prefix", "x"), 0, 7, dict(zip("ab", printed, strict=True))), "x")
    found = FoundNumbers()
    if kept is not None:
        found.add("cache_n", ProvenRange(kept, kept))
    assert _same_tokens(TiedRequest(0, 7, [line]), found, SimpleNamespace(same_tokens=same_tokens)) is are_same


def test_the_window_of_erased_checkpoints_shows_the_prefix():
    check = "slot update_slots: id  0 | task 7 | checking checkpoint with [46260, 46261] against 40..."
    erased = ("slot update_slots: id  0 | task 7 | erased invalidated context checkpoint (pos_min = 99, pos_max = 99, "
              "n_tokens = 100, n_swa = 8, pos_next = 70, size = 1.0 MiB)")  # fmt: skip
    found, _ = numbers(LAUNCH, check, erased, "srv  update_slots: all slots are idle")
    assert found["lcp"] == (48, 49)


@pytest.mark.parametrize(("end", "n_tokens", "is_unfinished"), [
    ((9, 9), (10, 10), True), ((10, 10), (10, 10), False), ((5, 9), (9, 12), False), ((5, 9), (10, 12), True),
    ((5, None), (9, 12), False), ((11, 12), (10, 10), False),
])  # fmt: skip
def test_a_prompt_of_more_tokens_than_the_slot_holds_is_unfinished(end, n_tokens, is_unfinished):
    assert _is_unfinished(TiedRequest(0, 7, []), counts(end=end, n_tokens=n_tokens)) is is_unfinished


def test_a_prompt_is_at_least_as_long_as_its_evaluated_tokens_and_its_batches():
    batches = [ReadLine(at, ParsedLine(Line("batch", "x"), 0, 7, {} if p0 is None else {"p0": p0}), "x")
               for at, p0 in enumerate((None, 70, 40), 4)]  # fmt: skip
    assert _evaluated(TiedRequest(0, 7, batches), counts()) == 70
    assert _evaluated(TiedRequest(0, 7, batches), counts(prompt_n=(90, 95))) == 90
    assert _evaluated(TiedRequest(0, 7, batches[:1]), counts()) == 0


def test_nothing_is_derived_from_numbers_that_clash():
    """From 2 to 5 reused tokens and 4 evaluated ones another clash would follow."""
    release = SimpleNamespace(read=SimpleNamespace(numbers={"truncated": 0}))
    request = SimpleNamespace(of=lambda *kinds: [release] if "release" in kinds else [], is_cancelled=False)
    found = counts(n_tokens=(2, 5), prompt_n=(4, 4), cache_n=(2, 5), end=(7, 10), predicted_n=(0, 3))
    _combine(request, found, SimpleNamespace(end_slack=0, same_tokens=()))
    assert [(name, str(known), str(derived)) for name, known, derived in found.clashes] == [
        ("cache_n", "2 to 5", "0 to 1")]  # fmt: skip


@pytest.mark.parametrize("rest", [None, 9])
def test_a_line_without_one_of_its_counts_does_not_hide_the_next(rest):
    lines = [SimpleNamespace(number=3, number_of={"n_past": 40, "prompt_n": rest}.get),
             SimpleNamespace(number=5, number_of={"n_past": 40, "prompt_n": 9}.get)]  # fmt: skip
    found = FoundNumbers()
    _in_cache(SimpleNamespace(of=lambda *kinds: lines if "in_cache" in kinds else []), found)
    assert [(name, one.low, one.high) for name, one in found.numbers.items()] == [
        ("n_tokens", 49, 49), ("cache_n", 40, 40), ("prompt_n", 9, 9)]  # fmt: skip


def test_numbers_are_derived_from_those_that_were_derived_before():
    """The length follows from the answer, the reused tokens from the length and the progress, the evaluated ones from
    both."""
    progress = ParsedLine(Line("progress", "x"), 0, 7, {"n_tokens": 100, "done_share": 0.5}, {"done_share": "0.50"})
    release = ParsedLine(Line("release", "x"), 0, 7, {"truncated": 0})
    request = TiedRequest(0, 7, [ReadLine(4, progress, "x"), ReadLine(5, release, "x")])
    found = counts(end=(170, 170), predicted_n=(11, 11))
    _combine(request, found, SimpleNamespace(end_slack=0, same_tokens=()))
    derived = {name: (one.low, one.high) for name, one in found.numbers.items()}
    assert (derived["n_tokens"], derived["cache_n"], derived["prompt_n"]) == ((160, 160), (20, 20), (140, 140))


@pytest.mark.parametrize(("length", "has_progress", "derived"), [
    (None, False, (100, 100)), ((90, None), False, (100, 100)), ((90, 120), False, (90, 120)),
    ((90, 120), True, (100, 100)),
])  # fmt: skip
def test_reused_and_evaluated_tokens_are_the_prompt_unless_its_length_is_bounded(length, has_progress, derived):
    """With lines of progress they are it even then."""
    lines = [ReadLine(9, ParsedLine(Line("progress", "x"), 0, 7, {}), "x")] * has_progress
    found = counts(prompt_n=(60, 60), cache_n=(40, 40), **({} if length is None else {"n_tokens": length}))
    _parts(TiedRequest(0, 7, lines), found)
    assert (found.get("n_tokens").low, found.get("n_tokens").high) == derived


def test_the_last_token_of_a_prompt_that_the_slot_holds_is_shown_by_its_line():
    lines = ["slot 0 is processing [task id: 7]", "slot 0 : in cache: 40 tokens | to process: 0 tokens"]
    [derived] = read_session("llama_cpp", grammars()["llama_cpp"], lines).derived
    found = [derived.numbers[name].how for name in ("n_tokens", "cache_n", "prompt_n")]
    assert found == ["40 tokens in the slot, 0 others"] * 3


def test_a_line_without_its_number_hides_no_other_that_has_it():
    def line(number, kind, **numbers):
        return ReadLine(number, ParsedLine(Line(kind, "x"), 0, 7, numbers), "x")

    lines = [line(1, "ckpt_restore", pos_min=30, pos_max=99), line(2, "need_one"), line(3, "need_one", n_past=99)]
    found = FoundNumbers()
    _lowered(TiedRequest(0, 7, lines), found)
    kept = found.get("cache_n")
    assert (kept.low, kept.high, kept.lines) == (99, 99, frozenset({1, 3}))


def test_a_restored_checkpoint_without_its_numbers_hides_no_other():
    def line(number, **numbers):
        return ReadLine(number, ParsedLine(Line("ckpt_restore", "x"), 0, 7, numbers), "x")

    found = FoundNumbers()
    found.add("n_tokens", ProvenRange(150, 150, frozenset({9})))
    lines = [line(1, n_past=70), line(2, pos_min=69, pos_max=69, n_past=70)]
    _restored(TiedRequest(0, 7, lines), found, grammars()["llama_cpp"])
    assert found.get("cache_n").lines == frozenset({2, 9})


def test_a_line_that_says_nothing_certain_hides_no_other():
    """A number counts if its line has the word that makes it certain, and if its prompt has room in the context."""
    gives = (PrintedNumber("batch", "cache_n", ("n_past",), spelled="sure"),
             PrintedNumber("prompt", "n_tokens", ("n",), cuts="cut"))  # fmt: skip
    grammar = LogGrammar((Line("batch", "x"),), gives=gives)

    def line(number, kind, template, **numbers):
        return ReadLine(number, ParsedLine(Line(kind, template), 0, 7, numbers), "x")

    lines = [line(1, "batch", "perhaps", n_past=9), line(2, "batch", "surely", n_past=8),
             line(3, "prompt", "cut", n=50, n_ctx_slot=40), line(4, "prompt", "whole", n=40)]
    found = numbers_of(TiedRequest(0, 7, lines), grammar, LineSieve()).numbers
    assert [(found[name].low, found[name].lines) for name in ("cache_n", "n_tokens")] == [
        (8, frozenset({2})), (40, frozenset({4}))]  # fmt: skip


def test_the_memory_may_refuse_the_last_batch_of_an_excerpt():
    """The line that reports it would follow."""
    assert numbers(LAUNCH, AFTER_100)[0] == {}
    assert numbers(LAUNCH, AFTER_100, END.format(120, 1))[0] == {"cache_n": (100, 100), "end": (120, 120)}


def test_a_slot_without_tokens_has_no_prompt_of_which_a_token_was_evaluated():
    assert "n_tokens" not in numbers(LAUNCH, times(1), END.format(0, 0))[0]
    assert numbers(LAUNCH, times(1), END.format(1, 0))[0]["n_tokens"] == (1, 1)
    assert "n_tokens" not in numbers(LAUNCH, SHIFT.format(0), times(1), END.format(0, 1))[0]
    assert numbers(LAUNCH, SHIFT.format(0), times(1), END.format(1, 1))[0]["n_tokens"] == (1, 1)


def test_the_reused_tokens_after_a_restored_checkpoint_may_be_more_by_as_many_as_the_line_leaves_open():
    gives = PrintedNumber("ckpt_restore", "cache_n", ("n_past",), plus=1, inside=True)
    printed = {"n_past": 70, "pos_min": 9, "pos_max": 69}
    restored = ReadLine(2, ParsedLine(Line("ckpt_restore", "x"), 0, 7, printed), "x")
    found = counts(n_tokens=(150, 150))
    _restored(TiedRequest(0, 7, [restored]), found, LogGrammar(gives=(gives,)))
    assert (found.get("cache_n").low, found.get("cache_n").high) == (70, 71)
