"""Numbers of a request that follow from its lines."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, LogGrammar, ParsedLine, PrintedNumber
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.request_numbers import numbers_of
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine
from cachesim.tools.server_logs.lines.recognise import grammars
from tests.unit.tools.server_logs.records import COUNTS, read_line, tied_lines

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


@pytest.mark.parametrize(("prompt", "lost"), [((PROMPT.format(100),), (1, 99)), ((), None)])
def test_a_prompt_that_is_evaluated_from_the_start_had_a_common_prefix(prompt, lost):
    """Without its length the prompt may have one token, which is always evaluated."""
    forced = "slot update_slots: id  0 | task 7 | forcing full prompt re-processing due to lack of cache data"
    found, clashes = numbers(LAUNCH, *prompt, forced)
    assert (found["cache_n"], found["lcp"][0], found.get("lost"), clashes) == ((0, 0), 1, lost, ())


def test_a_prompt_that_the_excerpt_does_not_end_is_not_known_to_be_evaluated():
    batch = "slot update_slots: id  0 | task 3 | n_tokens = 6144, memory_seq_rm [6144, end)"
    assert numbers(batch)[0] == {"cache_n": (0, 6144), "n_tokens": (6145, None)}


@pytest.mark.parametrize(("n_past", "rest", "counts"), [
    (40, 9, (49, 40, 9)), (40, 1, (41, 40, 1)), (40, 0, (40, 39, 1)), (0, 9, (9, 0, 9)),
])  # fmt: skip
def test_at_least_the_last_token_of_a_prompt_is_evaluated(n_past, rest, counts):
    found, _ = numbers("slot 0 is processing [task id: 7]",
                       f"slot 0 : in cache: {n_past} tokens | to process: {rest} tokens")  # fmt: skip
    assert [found[name] for name in ("n_tokens", "cache_n", "prompt_n")] == [(count, count) for count in counts]


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


@pytest.mark.parametrize(("thold", "known"), [(100, False), (101, True)])
def test_a_threshold_after_the_restored_position_shows_a_longer_prompt(thold, known):
    found, _ = numbers(LAUNCH, f"{HEAD}checking checkpoint with [0, 99] against {thold}...", RESTORED.format(0))
    assert found.get("cache_n") == ((100, 100) if known else None)


AFTER_100 = HEAD + "n_tokens = 100, memory_seq_rm [100, end)"


def test_a_prompt_whose_other_lines_are_in_the_excerpt_was_not_lowered():
    assert numbers(LAUNCH, RESTORED.format(0), AFTER_100)[0] == {
        "cache_n": (100, 100), "n_tokens": (101, None), "prompt_n": (1, None)}  # fmt: skip


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
    ([CANCEL, END.format(50, 0)], (50, 50)), ([CANCEL, END.format(90, 0)], (89, 90)),
    ([CANCEL, END.format(91, 0)], (89, 90)), ([END.format(50, 0)], (89, 90)), ([CANCEL], (89, 90)),
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


CHECKED = "checking checkpoint with [5, 9] against {}..."
DONE_PART = "prompt processing, n_tokens = {}, progress = {}, t = 3.00 s"


def test_the_window_of_erased_checkpoints_shows_the_prefix():
    check = "slot update_slots: id  0 | task 7 | checking checkpoint with [46260, 46261] against 40..."
    erased = ("slot update_slots: id  0 | task 7 | erased invalidated context checkpoint (pos_min = 99, pos_max = 99, "
              "n_tokens = 100, n_swa = 8, pos_next = 70, size = 1.0 MiB)")  # fmt: skip
    found, _ = numbers(LAUNCH, check, erased, "srv  update_slots: all slots are idle")
    assert found["lcp"] == (48, 49)


def test_the_memory_may_refuse_the_last_batch_of_an_excerpt():
    """The line that reports it would follow."""
    longer = {"n_tokens": (101, None)}
    assert numbers(LAUNCH, AFTER_100)[0] == {"cache_n": (0, 100), **longer}
    assert numbers(LAUNCH, AFTER_100, END.format(120, 1))[0] == {
        "cache_n": (100, 100), "end": (120, 120), "prompt_n": (1, None), **longer}  # fmt: skip


def test_a_slot_without_tokens_has_no_prompt_of_which_a_token_was_evaluated():
    assert "n_tokens" not in numbers(LAUNCH, times(1), END.format(0, 0))[0]
    assert numbers(LAUNCH, times(1), END.format(1, 0))[0]["n_tokens"] == (1, 1)
    assert "n_tokens" not in numbers(LAUNCH, SHIFT.format(0), times(1), END.format(0, 1))[0]
    assert numbers(LAUNCH, SHIFT.format(0), times(1), END.format(1, 1))[0]["n_tokens"] == (1, 1)


RESUMED = PrintedNumber("ckpt_restore", "cache_n", ("n_past",), absent=("trim_failed",), inside=True)


def derived(*lines, same_tokens=(), end_slack=0, gives=(RESUMED,), **counts):
    """Return what follows from lines and from these printed counts."""
    printed = [read_line(name, 50 + at, n=value) for at, (name, value) in enumerate(counts.items())]
    named = [PrintedNumber(name, name, ("n",)) for name in COUNTS]
    grammar = LogGrammar(gives=(*named, *gives), same_tokens=same_tokens, end_slack=end_slack)
    found = numbers_of(tied_lines(*lines, *printed), grammar, LineSieve())
    return {name: (one.low, one.high) for name, one in found.numbers.items()}


def restored(number=1, **printed):
    return read_line("ckpt_restore", number, **{"pos_min": 0, "pos_max": 99, "n_past": 100, **printed})


@pytest.mark.parametrize(("counts", "is_longer"), [
    ({}, False), ({"n_tokens": 100}, False), ({"n_tokens": 101}, True), ({"lcp": 100}, False), ({"lcp": 101}, True),
    ({"prompt_n": 1}, False), ({"prompt_n": 2}, True), ({"prompt_n": 99}, True), ({"prompt_n": 100}, False),
    ({"prompt_n": 101}, True),
])  # fmt: skip
def test_a_restored_position_is_reused_if_the_prompt_is_longer(counts, is_longer):
    """Else one token is evaluated, the last, or all of them."""
    assert derived(restored(), **counts).get("cache_n") == ((100, 100) if is_longer else None)


DONE_PART = HEAD + "prompt processing, n_tokens = {}, progress = {}, t = 3.00 s"


@pytest.mark.parametrize(("line", "is_longer"), [
    (HEAD + "checking checkpoint with [5, 9] against many...", False),
    (DONE_PART.format(60, "0.60"), False), (DONE_PART.format(60, "0.61"), True), (DONE_PART.format(70, "0.65"), True),
])  # fmt: skip
def test_lines_of_progress_may_show_a_longer_prompt(line, is_longer):
    assert numbers(LAUNCH, line, RESTORED.format(0))[0].get("cache_n") == ((100, 100) if is_longer else None)


@pytest.mark.parametrize(("first", "last", "known"), [(99, 99, True), (100, 100, False), (99, 100, True)])
def test_a_checkpoint_of_one_position_must_end_before_the_restored_one(first, last, known):
    assert ("cache_n" in derived(restored(pos_min=first, pos_max=last), n_tokens=150)) is known


def test_a_restored_checkpoint_that_gives_nothing_hides_no_other():
    for useless in ({"n_past": 100, "pos_max": 99}, {"pos_min": None}):
        lines = restored(1, **useless), restored(2, pos_max=49, n_past=50)
        assert derived(*lines, n_tokens=80)["cache_n"] == (50, 50)
    assert derived(restored(pos_max=69, n_past=70), gives=(RESUMED._replace(plus=1),), n_tokens=150)["cache_n"] == (
        70, 71)  # fmt: skip


@pytest.mark.parametrize(("lcp", "cache_n", "lost"), [
    (50, 40, (10, 10)), (50, 50, None), (40, 50, None), (0, 0, None), (5, 0, (5, 5))])
def test_lost_tokens_are_those_of_the_prefix_that_were_not_reused(lcp, cache_n, lost):
    assert derived(lcp=lcp, cache_n=cache_n, n_tokens=60).get("lost") == lost


def test_the_last_token_of_a_prompt_that_may_be_the_prefix_is_not_lost():
    assert derived(lcp=50, cache_n=40)["lost"] == (9, 10)
    assert derived(lcp=50, cache_n=40, n_tokens=50)["lost"] == (9, 9)
    assert "lost" not in derived(lcp=50, cache_n=50)


@pytest.mark.parametrize(("entries", "known"), [(0, (0, 0)), (1, None)])
def test_nothing_is_reused_from_an_empty_cache(entries, known):
    fetched = read_line("fetch", 3, prompts=entries)
    assert derived(fetched).get("cache_n") == known and "cache_n" not in derived(fetched, read_line("usage", 4))


DONE = read_line("release", 9, truncated=0)


@pytest.mark.parametrize(("slack", "made", "length"), [(0, 1, (80, 80)), (2, 1, (78, 80)), (2, 80, (0, 1))])
def test_a_prompt_may_be_shorter_by_the_slack_of_the_server(slack, made, length):
    assert derived(DONE, end=80, predicted_n=made, end_slack=slack)["n_tokens"] == length


def test_a_prompt_is_not_shorter_than_its_evaluated_tokens_and_its_batches():
    assert derived(DONE, end=80, predicted_n=1, prompt_n=80)["n_tokens"] == (80, 80)
    assert "n_tokens" not in derived(DONE, end=80, predicted_n=1, prompt_n=90)
    batches = read_line("batch", 1, p0=90), read_line("batch", 2, p0=40)
    assert derived(*batches, DONE, end=80, predicted_n=1)["n_tokens"] == (91, None)


@pytest.mark.parametrize(("same_tokens", "kept", "printed", "are_same"), [
    ((), None, (5, 6), True), (("prefix", "a", "b"), None, (5, 5), False), (("prefix", "a", "b"), 0, (5, 6), True),
    (("prefix", "a", "b"), 5, (5, 5), True), (("prefix", "a", "b"), 5, (5, 6), False),
    (("prefix", "a", "b"), 4, (5, 5), False),
])  # fmt: skip
def test_counts_of_slot_and_prompt_are_added_if_they_are_counts_of_the_same_tokens(
    same_tokens, kept, printed, are_same
):
    counts = {"end": 80, "predicted_n": 1, **({} if kept is None else {"cache_n": kept})}
    found = derived(read_line("prefix", 4, a=printed[0], b=printed[1]), DONE, same_tokens=same_tokens, **counts)
    assert found.get("n_tokens") == ((80, 80) if are_same else None)


def test_numbers_are_derived_from_those_that_were_derived_before():
    """The length follows from the answer, the reused tokens from the length and the progress, the evaluated ones from
    both."""
    found = derived(read_line("progress", 4, n_tokens=100, done_share="0.50"), DONE, end=170, predicted_n=11)
    assert (found["n_tokens"], found["cache_n"], found["prompt_n"]) == ((160, 160), (20, 20), (140, 140))
    assert derived(prompt_n=60, cache_n=40)["n_tokens"] == (100, 100)


@pytest.mark.parametrize(("before", "known"), [(None, False), ("n_past", True), ("launch", True)])
def test_of_lines_of_which_the_first_counts_only_that_just_after_the_start_gives_a_number(before, known):
    lines = [*([] if before is None else [read_line(before, 0)]), read_line("batch", 1, p0=9),
             read_line("batch", 2, p0=8)]  # fmt: skip
    found = derived(*lines, gives=(PrintedNumber("batch", "cache_n", ("p0",), first=True),))
    assert found.get("cache_n") == ((9, 9) if known else None)


def test_a_line_that_says_nothing_certain_hides_no_other():
    """A number counts if its line has the word that makes it certain or a line of progress confirms it, and if its
    prompt has room in the context."""
    gives = (PrintedNumber("batch", "cache_n", ("n_past",), spelled="sure"),
             PrintedNumber("prompt", "n_tokens", ("n",), cuts="cut"))  # fmt: skip

    def line(number, kind, template, **numbers):
        return ReadLine(number, ParsedLine(Line(kind, template), 0, 7, numbers), "x")

    unsure = line(1, "batch", "perhaps", n_past=9)
    lines = [unsure, line(2, "batch", "surely", n_past=8), line(3, "prompt", "cut", n=50, n_ctx_slot=40),
             line(4, "prompt", "whole", n=40)]  # fmt: skip
    assert derived(*lines, gives=gives) == {"cache_n": (8, 8), "n_tokens": (40, 40), "prompt_n": (32, 32)}
    confirmed = derived(unsure, read_line("progress", 2, n_tokens=12, batch=3), gives=gives)
    assert confirmed["cache_n"] == (9, 9) and "cache_n" not in derived(unsure, gives=gives)


def test_counts_without_their_pair_hide_no_other():
    assert derived(read_line("in_cache", 3, n_past=40), read_line("in_cache", 5, n_past=40, prompt_n=9)) == {
        "n_tokens": (49, 49), "cache_n": (40, 40), "prompt_n": (9, 9)}
    lines = read_line("ckpt_restore", 1, pos_min=30, pos_max=99), read_line("need_one", 2)
    assert derived(*lines, read_line("need_one", 3, n_past=99), gives=()) == {"cache_n": (99, 99)}
