"""Earlier decisions that cost a request a restore point: stated only if every printed number agrees."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.earlier_causes import EarlierCauses
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.statements import Statement
from cachesim.tools.server_logs.lines.recognise import grammars

GRAMMAR = grammars()["llama_cpp"]
CKPT = "(pos_min = 275, pos_max = 275, n_tokens = 276, size = 0.127 MiB)"


def slot(task: int, text: str) -> str:
    return f"slot   operator(): id  0 | task {task} | {text}"


def choice(lcp: int, length: int, keep: float) -> list[str]:
    return [slot(-1, f" - checking sim = {lcp / length:.3f} ({lcp}/{length}) > 0.100"),
            slot(-1, f"selected slot by LCP similarity, f_sim_best = {lcp / length:.3f} (> 0.100 thold), "
                     f"f_keep = {keep:.3f}")]  # fmt: skip


FIRST = [
    "srv    load_model: initializing, n_slots = 1, n_ctx_slot = 2048, kv_unified = 'false'",
    *choice(458, 484, 1.0), slot(105, "processing task, is_child = 0"),
    slot(105, "new prompt, n_ctx_slot = 2048, n_keep = 0, task.n_tokens = 484"),
    slot(105, "cached n_tokens = 458, memory_seq_rm [458, end)"),
    slot(105, f"erasing old context checkpoint {CKPT}"),
    slot(105, "created context checkpoint 8 of 8 (pos_min = 460, pos_max = 460, n_tokens = 461, size = 0.054 MiB)"),
    slot(105, "stop processing: n_tokens = 490, truncated = 0"),
    "srv  update_slots: all slots are idle",
]  # fmt: skip
SECOND = [
    *choice(282, 539, 282 / 490), slot(116, "processing task, is_child = 0"),
    slot(116, "new prompt, n_ctx_slot = 2048, n_keep = 0, task.n_tokens = 539"),
    slot(116, "checking checkpoint with [460, 460] against 282..."),
    slot(116, "forcing full prompt re-processing due to lack of cache data (likely due to SWA or hybrid/recurrent "
              "memory, see x)"),
    slot(116, "cached n_tokens = 0, memory_seq_rm [0, end)"),
]  # fmt: skip
LOG = [*FIRST, *SECOND]


def earlier(lines: list[str]) -> list[Statement]:
    session = read_session("llama_cpp", GRAMMAR, lines)
    found = EarlierCauses(session.read_lines, session.derived, GRAMMAR, session.sieve)
    return [said for derived in session.derived for said in found.of(derived)]


def test_an_evicted_checkpoint_within_the_common_prefix_is_named():
    (said,) = earlier(LOG)
    assert said in conclude(read_session("llama_cpp", GRAMMAR, LOG)).statements
    assert said.numbers == {"cause": "checkpoint-evicted", "lost": 276} and (said.slot, said.task) == (0, 116)
    assert said.lines == (2, 3, 7, 11, 12, 16)


@pytest.mark.parametrize("text, key", [
    (f"erasing context checkpoint too close to an earlier one {CKPT}", "checkpoint-too-close"),
    ("main/do_checkpoint = no, pos_min = 275, pos_max = 275", "checkpoint-not-created"),
    (f"erased invalidated context checkpoint {CKPT[:-1]}, n_swa = 0, pos_next = 0)".replace(
        ", size = 0.127 MiB, n_swa = 0, pos_next = 0)", ", n_swa = 0, pos_next = 0, size = 0.127 MiB)"),
     "checkpoint-erased"),
])  # fmt: skip
def test_other_decisions_are_named_by_their_line(text, key):
    assert [said.numbers["cause"] for said in earlier([*LOG[:6], slot(105, text), *LOG[7:]])] == [key]


def changed(old: str, new: str) -> list[str]:
    assert any(old in line for line in LOG)
    return [line.replace(old, new) for line in LOG]


@pytest.mark.parametrize("lines", [
    changed("282/539", "270/539"),                                   # the prompt shares less than the checkpoint
    changed("(458/484)", "(200/484)"),                               # its own request may have replaced the text
    changed("275, n_tokens = 276", "275, n_tokens = 270"),           # numbers of the checkpoint disagree
    changed("n_tokens = 490, truncated", "n_tokens = 700, truncated"),  # another request was in the slot
    changed("task 105", "task 117"),                                 # tasks are numbered in order
    changed("f_keep = 0.576", "f_keep = 0.900"),
    [*FIRST, slot(-1, "clearing prompt with 490 tokens"), *SECOND],
    [*FIRST, slot(105, "slot context shift, n_keep = 0, n_left = 9, n_discard = 4"), *SECOND],
    [*FIRST, *SECOND[:2], "srv          load:  - found better prompt with f_keep = 0.9, f_sim = 0.9", *SECOND[2:]],
    [line for line in LOG if "slot" in line and "load_model" not in line],     # a search may have removed lines
    SECOND, [*FIRST, *(line for line in SECOND if "processing task" not in line)],
    [*FIRST, *(line for line in SECOND if "forcing" not in line and "checking checkpoint" not in line)],
], ids=range(13))  # fmt: skip
def test_nothing_is_named_if_a_number_or_a_line_does_not_prove_it(lines):
    assert earlier(lines) == []


def test_a_checkpoint_created_again_is_not_missed():
    again = slot(105, f"created context checkpoint 8 of 8 {CKPT}")
    assert earlier([*LOG[:7], again, *LOG[7:]]) == []
    assert len(earlier([*LOG[:6], again, *LOG[6:]])) == 1


def test_a_restored_checkpoint_counts_to_its_end():
    for end, lost in ((100, [176]), (275, [1]), (276, [])):
        where = f"pos_min = {end - 1}, pos_max = {end - 1}, n_tokens = {end}, n_past = {end}"
        restored = slot(116, f"restored context checkpoint ({where}, size = 0.1 MiB)")
        lines = [restored if "forcing" in line else line.replace("[0, end)", f"[{end}, end)").replace(
            "cached n_tokens = 0,", f"cached n_tokens = {end},") for line in LOG]  # fmt: skip
        assert [said.numbers["lost"] for said in earlier(lines)] == lost


def between(*made):
    """Return a request between the two of the log, which continues the first and leaves 530 tokens."""
    return [*choice(490, 520, 1.0), slot(110, "processing task, is_child = 0"),
            slot(110, "new prompt, n_ctx_slot = 2048, n_keep = 0, task.n_tokens = 520"),
            slot(110, "cached n_tokens = 490, memory_seq_rm [490, end)"), *made,
            slot(110, "stop processing: n_tokens = 530, truncated = 0"), "srv  update_slots: all slots are idle",
            *choice(282, 539, 282 / 530), *SECOND[2:]]  # fmt: skip


def test_a_request_between_may_have_made_another_checkpoint():
    (said,) = earlier([*FIRST, *between()])
    assert said.numbers["lost"] == 276 and said.lines == (2, 3, 7, 11, 12, 18, 19, 23)

    def created(end):
        where = f"pos_min = {end - 1}, pos_max = {end - 1}, n_tokens = {end}"
        return slot(110, f"created context checkpoint 8 of 8 ({where}, size = 0.1 MiB)")

    assert earlier([*FIRST, *between(created(280))]) == []                # it would serve this prompt better
    assert len(earlier([*FIRST, *between(created(500))])) == 1


def created(end, task=110):
    where = f"pos_min = {end - 1}, pos_max = {end - 1}, n_tokens = {end}"
    return slot(task, f"created context checkpoint 8 of 8 ({where}, size = 0.1 MiB)")


@pytest.mark.parametrize(("made", "is_named"), [
    ([], True), ([created(275)], True), ([created(276)], False), ([created(277)], False), ([created(282)], False),
    ([created(283)], True), ([slot(110, "forcing full prompt re-processing due to lack of cache data")], False),
])  # fmt: skip
def test_a_checkpoint_between_the_removed_one_and_the_end_of_the_prefix_would_serve(made, is_named):
    assert bool(earlier([*FIRST, *between(*made)])) is is_named


@pytest.mark.parametrize(("high", "end", "is_named"), [
    (282, 276, False), (282, 282, False), (282, 283, True), (None, 275, True), (None, 276, False), (None, 500, False),
])  # fmt: skip
def test_a_checkpoint_that_may_lie_within_the_common_prefix_would_serve(high, end, is_named):
    first = [line for line in FIRST if "created context checkpoint" not in line]
    session = read_session("llama_cpp", GRAMMAR, [*first, *between(created(end))])
    last = session.derived[-1]
    last.numbers["lcp"] = last.numbers["lcp"]._replace(high=high)
    found = EarlierCauses(session.read_lines, session.derived, GRAMMAR, session.sieve)
    assert bool([*found.of(last)]) is is_named


@pytest.mark.parametrize(("place", "is_named"), [(6, True), (7, False)])
def test_a_checkpoint_with_more_tokens_than_the_removed_one_would_serve_whenever_it_was_made(place, is_named):
    """One of as many tokens that was made before the removal is the removed one."""
    assert bool(earlier([*LOG[:place], created(276, 105), *LOG[place:]])) is is_named
    assert earlier([*LOG[:place], created(280, 105), *LOG[place:]]) == []


@pytest.mark.parametrize(("old", "new"), [
    ("sim = 0.942 (490/520)", "sim = 0.529 (275/520)"),              # the request between shared less
    ("task 110 | processing", "task 104 | processing"), ("n_tokens = 530, truncated", "n_tokens = 700, truncated"),
    ("f_keep = 1.000", "f_keep = 0.700"),
])  # fmt: skip
def test_every_request_between_continues_the_one_before_it(old, new):
    lines = between()
    assert any(old in line for line in lines) and earlier([*FIRST, *(line.replace(old, new) for line in lines)]) == []


def test_a_launch_of_the_request_between_must_be_in_the_log():
    lines = [line for line in between() if "task 110 | processing" not in line and "task 110 | new prompt" not in line]
    assert earlier([*FIRST, *lines]) == []


def test_a_line_about_another_slot_changes_nothing():
    other = slot(90, "slot context shift, n_keep = 0, n_left = 9, n_discard = 4").replace("id  0", "id  1")
    assert len(earlier([*FIRST, other, *SECOND])) == 1
    assert len(earlier([slot(90, "slot context shift, n_keep = 0, n_left = 9, n_discard = 4"), *LOG])) == 1


def test_the_newest_of_the_removed_checkpoints_with_most_tokens_is_named():
    small = slot(105, "erasing old context checkpoint (pos_min = 99, pos_max = 99, n_tokens = 100, size = 0.127 MiB)")
    for lines in ([*LOG[:6], small, *LOG[6:]], [*LOG[:7], small, *LOG[7:]]):
        assert [said.numbers["lost"] for said in earlier(lines)] == [276]
    again = [*LOG[:7], slot(105, f"erasing old context checkpoint {CKPT}"), *LOG[7:]]
    assert [said.lines for said in earlier(again)] == [(2, 3, 8, 12, 13, 17)]


def test_a_checkpoint_is_not_restorable_from_the_threshold_on():
    """The check of another checkpoint prints the threshold: first positions below it are accepted."""
    for thold, is_named in ((282, True), (276, True), (275, False)):
        assert bool(earlier([line.replace("against 282", f"against {thold}") for line in LOG])) is is_named


def test_a_removed_checkpoint_of_another_prompt_is_not_named():
    """The request that removed it shared fewer tokens with the slot: the checkpoint may be that of the text before."""
    lines = [*FIRST[:1], *choice(200, 484, 200 / 500), *FIRST[3:5], slot(105, "cached n_tokens = 200, memory_seq_rm "
             "[200, end)"), *FIRST[6:], *SECOND]  # fmt: skip
    assert earlier(lines) == []
    own = [*lines[:6], created(276, 105), *lines[6:]]
    assert len(earlier(own)) == 1                                         # it made the checkpoint itself


def test_a_full_evaluation_between_leaves_other_checkpoints():
    lines = [line.replace("cached n_tokens = 490, memory_seq_rm [490", "cached n_tokens = 0, memory_seq_rm [0")
             for line in between(slot(110, "forcing full prompt re-processing due to lack of cache data"))]  # fmt: skip
    assert earlier([*FIRST, *lines]) == []


def test_tasks_of_a_slot_are_launched_in_their_order():
    assert earlier([*FIRST, *(line.replace("task 110 |", "task 120 |") for line in between())]) == []


def test_a_slot_that_is_emptied_after_the_choice_of_the_first_request_held_something_else():
    emptied = "srv  get_availabl: purging slot 0 with 9 tokens"
    assert earlier([*FIRST[:3], emptied, *FIRST[3:], *SECOND]) == []
    assert len(earlier([emptied, *FIRST, *SECOND])) == 1


def test_the_lost_tokens_of_a_removed_window_are_a_range():
    """A request that restores it may evaluate its last token again."""
    [said] = earlier([line.replace("pos_min = 275", "pos_min = 99") for line in LOG])
    assert said.numbers == {"cause": "checkpoint-evicted", "lost": [275, 276]}


@pytest.mark.parametrize("word", ["task", "id  0", "slot   operator"])
def test_an_excerpt_that_a_search_left_proves_nothing(word):
    """The line that a slot was emptied for another request has none of these words."""
    assert len(earlier(LOG)) == 1 and earlier([line for line in LOG if word in line]) == []


def test_no_removed_checkpoint_reaches_the_end_of_the_prompt():
    """At least the last token of a prompt is evaluated, whatever the slot shares with it."""
    for length, is_named in ((278, True), (277, True), (276, False)):
        lines = [line.replace("(282/539)", f"(276/{length})").replace("= 0.523", f"= {276 / length:.3f}").replace(
            "f_keep = 0.576", "f_keep = 0.563").replace("task.n_tokens = 539", f"task.n_tokens = {length}")
                 for line in LOG]  # fmt: skip
        assert bool(earlier(lines)) is is_named, length


def test_requests_after_the_one_that_lost_tokens_change_nothing():
    """Another checkpoint is made, and the slot is cleared, only afterwards."""
    after = [line.replace("task 116", "task 120") for line in SECOND]
    full = [*LOG, slot(116, "stop processing: n_tokens = 545, truncated = 0"), "srv  update_slots: all slots are idle",
            slot(-1, "clearing prompt with 545 tokens"), *after]  # fmt: skip
    assert [said.task for said in earlier(full) if said.lines[-1] <= 16] == [116]


def test_a_checkpoint_made_and_removed_in_one_line_of_the_file_is_the_removed_one_but_not_surely_its_own():
    """The line end between the two messages was lost."""
    joined = created(276, 105) + FIRST[6]
    assert len(earlier([*LOG[:6], joined, *LOG[7:]])) == 1
    less = [*FIRST[:1], *choice(200, 484, 200 / 500), *FIRST[3:5], slot(105, "cached n_tokens = 200, memory_seq_rm "
            "[200, end)")]  # fmt: skip
    assert earlier([*less, joined, *LOG[7:]]) == [] and len(earlier([*less, created(276, 105), *LOG[6:]])) == 1


PURGE = "srv  get_availabl: purging slot 0 with 9 tokens"
AGAIN = [slot(116, "stop processing: n_tokens = 545, truncated = 0"), "srv  update_slots: all slots are idle"]


def test_of_two_removals_in_one_line_of_the_file_one_is_named():
    joined = FIRST[6] + slot(105, "main/do_checkpoint = no, pos_min = 275, pos_max = 275")
    assert [said.numbers["lost"] for said in earlier([*LOG[:6], joined, *LOG[7:]])] == [276]


def test_requests_before_the_one_that_removed_the_checkpoint_prove_nothing_and_disprove_nothing():
    before = [FIRST[0], *choice(300, 484, 1.0), *(line.replace("task 105", "task 90").replace("458", "300")
                                                  for line in FIRST[3:] if "erasing" not in line)]  # fmt: skip
    (said,), (alone,) = earlier([*before, *FIRST[1:], *SECOND]), earlier(LOG)
    assert said.lines == tuple(number + len(before) - 1 for number in alone.lines)


def test_a_slot_that_loses_its_contents_before_the_request_was_evaluated_is_not_blamed_on_a_removal():
    clear = slot(-1, "clearing prompt with 490 tokens")
    third = between()
    at = third.index("srv  update_slots: all slots are idle") + 1
    assert len(earlier([*FIRST, *third])) == 1 and earlier([*FIRST, *third[:at], clear, *third[at:]]) == []
    assert earlier([*LOG[:-1], PURGE, LOG[-1]]) == []


def test_a_slot_that_loses_its_contents_after_the_first_line_of_the_first_request_held_something_else():
    """Its selection is not in the excerpt."""
    common = slot(105, "n_past = 458, slot.prompt.tokens.size() = 458, seq_id = 0, pos_min = 457, n_swa = 0")
    first = [FIRST[0], *FIRST[3:5], common, *FIRST[5:]]
    assert len(earlier([*first, *SECOND])) == 1 and earlier([*first[:2], PURGE, *first[2:], *SECOND]) == []


def test_a_checkpoint_that_the_request_itself_makes_came_too_late():
    assert [said.task for said in earlier([*LOG, created(280, 116), *AGAIN])] == [116]


def test_a_request_between_must_be_whole_also_if_the_checkpoint_was_made_and_removed_before_it():
    own = [*FIRST[:6], created(276, 105), *FIRST[6:]]
    common = slot(110, "n_past = 490, slot.prompt.tokens.size() = 490, seq_id = 0, pos_min = 489, n_swa = 0")
    whole = [line for line in between(common) if "/520" not in line and "0.942" not in line]
    lines = [line for line in whole if "task 110 | processing" not in line and "task 110 | new prompt" not in line]
    assert len(earlier([*own, *whole])) == 1 and earlier([*own, *lines]) == []


def test_the_request_that_removed_the_checkpoint_may_have_evaluated_its_whole_prompt():
    forced = slot(105, "forcing full prompt re-processing due to lack of cache data")
    lines = [line.replace("cached n_tokens = 458, memory_seq_rm [458", "cached n_tokens = 0, memory_seq_rm [0")
             for line in [*FIRST[:5], forced, *FIRST[5:], *SECOND]]  # fmt: skip
    assert [said.numbers["lost"] for said in earlier(lines)] == [276]
