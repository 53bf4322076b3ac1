"""Tests of text after a change that the previous prompt contains, too: the scenario repeats its words there, so that
`advise` can move, restore and sort it."""

from __future__ import annotations

import json

import pytest

from cachesim.base.tokens import common_prefix
from cachesim.engines.registry import profiles
from cachesim.scenarios.load import load_text
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.tools.advise.saved_tokens import saved_tokens
from cachesim.tools.request_bodies.command import repair_case
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.sent_again import (
    ChangedRegion,
    TokenPositions,
    find_region,
    reordered_lines,
    sent_ranges,
)
from tests.unit.tools.request_bodies.made import LONG, TOOLS, chat

ASKED = "Tell me about the number N, and about all of its friends and relatives, please. " * 5
SAID = "It is a very fine number, and all of its friends say so whenever they are asked. " * 6
ORDERS = ((0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1))


def turns(number, system, **more):
    texts = [ASKED.replace("N", str(i)) if i % 2 == 0 else f"{SAID}{i}" for i in range(2 * number - 1)]
    return chat(*texts, system=system, **more)


def dated(changes):
    return [turns(n, f"You help. Today is 2026-11-2{n if changes else 1}. {LONG * 4}") for n in (1, 2, 3, 4)]


def with_tools(changes):
    return [turns(n + 1, LONG * 4, tools=[TOOLS[i] for i in (order if changes else ORDERS[0])])
            for n, order in enumerate(ORDERS)]  # fmt: skip


def with_reasoning(changes):
    """The client removes reasoning from all answers but the newest."""
    out = []
    for number in (1, 2, 3, 4):
        body = turns(number, LONG)
        for i, message in enumerate(body["messages"]):
            if message["role"] == "assistant" and (not changes or i >= 2 * number - 2):
                message["reasoning_content"] = "I think of many things. " * 20
        out.append(body)
    return out


def imported(tmp_path, bodies):
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in bodies), "utf-8")
    return import_bodies([file], ImportOptions(model="A"))


@pytest.mark.long
@pytest.mark.parametrize(("made", "name", "slack"), [
    (dated, "changing part last", 370), (with_tools, "constant order", 4), (with_reasoning, "unchanged history", 4)])
def test_the_saved_tokens_are_those_of_repaired_bodies(tmp_path, made, name, slack):
    """Positions of characters are rounded to tokens. After a date at the end, the answer is evaluated again."""
    data, text = imported(tmp_path, made(True))
    saved = saved_tokens(repair_case(data, text))
    repaired, _ = imported(tmp_path, made(False))
    best = sum(row["tokens"] - row["simulated"] for row in repaired["requests"])
    assert saved["changes"][0] == name
    assert saved["evaluated"] - saved["saved"] == pytest.approx(best, abs=slack)


@pytest.mark.parametrize("made", [dated, with_tools, with_reasoning])
def test_lengths_and_common_prefixes_do_not_change(tmp_path, made):
    data, text = imported(tmp_path, made(True))
    scenario = load_text(text, profiles().keys())
    assert [len(step.request.prompt) for step in scenario.steps] == [row["tokens"] for row in data["requests"]]
    for row, step in zip(data["requests"], scenario.steps, strict=True):
        if row["reusable_from"] >= 0:
            before = scenario.steps[row["reusable_from"]].request
            n = common_prefix(before.prompt, step.request.prompt)
            assert n == min(row["reusable"], len(before.prompt))


def test_the_words_of_a_date(tmp_path):
    _, text = imported(tmp_path, dated(True)[:2])
    line = spell(load_text(text, profiles().keys()).line)
    assert line.startswith("A") and ".B1.A[" in line.replace("D1", "B1")


@pytest.mark.parametrize(("old", "new", "region"), [
    ("head one tail of this long text", "head two tail of this long text, and more", ChangedRegion(5, 8, 8, 31)),
    ("head tail of this long text", "head more tail of this long text!", ChangedRegion(5, 5, 10, 27)),
    ("head one tail of this long text", "head something quite different", None), ("head one", "head two", None),
])  # fmt: skip
def test_the_region_ends_where_the_rest_follows(old, new, region):
    start = next(i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y)
    assert find_region(old, new, start, (len(old),)) == region


@pytest.mark.parametrize(("size", "is_found"), [(16, False), (17, True)])
def test_a_text_that_is_sent_again_is_not_shorter_than_sixteen_characters(size, is_found):
    old = "head " + "one tail and more of it"[:size]
    found = find_region(old, f"head new {old[5:]}", 5, (len(old),))
    assert found == (ChangedRegion(5, 5, 9, len(old)) if is_found else None)


def test_the_region_ends_at_the_first_end_whose_text_follows():
    old, new = "head one tail of this text.END", "head other tail of this text.more"
    assert find_region(old, new, 5, (30, 27)) == ChangedRegion(5, 8, 10, 27)
    assert find_region(old, new, 5, (27, 26)) == ChangedRegion(5, 8, 10, 27)
    assert find_region(old, new, 5, ()) is None


def test_the_smallest_region_counts_if_the_rest_occurs_twice():
    tail = " and the rest of it"
    old, new = f"head one{tail}", f"head two{tail} or one{tail}"
    assert find_region(old, new, 5, (len(old),)) == ChangedRegion(5, 5, len(new) - len(tail) - 3, len(old))


class Words:
    """Tokenizer whose tokens are characters."""

    def tokens(self, text):
        return [*map(ord, text)]


def ranges(old, new, ends=None, answer="", answer_size=0, shared=None):
    start = next(i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y)
    region = find_region(old, new, start, [len(old)] if ends is None else ends)
    tokens = TokenPositions(old, len(old), Words())
    return [tuple(one) for one in sent_ranges(tokens, new, region, start if shared is None else shared, answer,
                                              answer_size)]  # fmt: skip


def test_the_changed_text_comes_first_then_the_rest_and_the_answer():
    old = "head one tail of this long text"
    assert ranges(old, "head two tail of this long text") == [(-1, 3), (8, 23)]
    assert ranges(old, "head tail of this long text") == [(9, 22)]
    assert ranges(old, "head two tail of this long text.said", answer=".said", answer_size=3) == [
        (-1, 3), (8, 23), (31, 3)]  # fmt: skip
    assert ranges(old, "head two tail of this long text.other", answer=".said", answer_size=3) == [(-1, 3), (8, 23)]
    assert ranges(old, "head two tail of this long tex.said", [30], ".said", 3) == [(-1, 3), (8, 22)]


END = "and the end of this text, which both of them have"
LINES = ["- one: the first", "- two: the second", "- six: the last"]


def lines(*order):
    return "Tools:\n" + "".join(f"{LINES[i]}\n" for i in order) + END


def test_reordered_lines_keep_their_common_beginning():
    """The lines begin at token 7, 24 and 42; two tokens of the first are shared. The second line of the new text takes
    its beginning from the line of the old text at that place."""
    assert ranges(lines(0, 1, 2), lines(1, 0, 2)) == [(26, 16), (24, 2), (9, 15), (42, 65)]
    assert ranges(lines(0, 1, 2), lines(2, 1, 0)) == [(44, 14), (24, 2), (26, 16), (42, 2), (9, 15), (58, 49)]


def test_lines_may_begin_after_an_empty_line():
    """The lines begin at token 1, 18 and 36."""
    old, new = ("\n" + "".join(f"{LINES[i]}\n" for i in order) + END for order in ((0, 1, 2), (1, 0, 2)))
    assert ranges(old, new) == [(20, 16), (18, 2), (3, 15), (36, 65)]


@pytest.mark.parametrize(("old", "new", "shared"), [
    (lines(0, 1, 2), lines(1, 0, 2), 6), (lines(0, 1, 2), lines(1, 0, 2), 24),
    (lines(0, 1, 2), lines(1, 0, 2).replace("second", "other"), 9), (f"one - two {END}",
                                                                     f"two - one {END}", 0),
])  # fmt: skip
def test_other_lines_are_not_reordered(old, new, shared):
    start = next(i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y)
    region = ChangedRegion(start, len(old) - len(END), len(new) - len(END), len(old))
    assert reordered_lines(TokenPositions(old, len(old), Words()), new, region, shared) == []


def test_a_character_is_at_a_token_from_the_end():
    tokens = TokenPositions("abcdef", 9, Words())
    assert [tokens.at(at) for at in (0, 1, 5, 6)] == [3, 4, 8, 9] and TokenPositions("abcdef", 4, Words()).at(0) == 0
    assert (tokens.count(""), tokens.count("ab")) == (0, 2)


@pytest.mark.parametrize(("changed", "is_found"), [(40, True), (41, False)])
def test_half_of_the_rest_must_follow(changed, is_found):
    """The text after the common beginning has 80 characters; its last 40 are searched."""
    old = "head " + "a" * changed + "".join(chr(200 + at) for at in range(80 - changed))
    new = "head b" + old[5 + changed :]
    found = find_region(old, new, 5, (len(old),))
    assert found == (ChangedRegion(5, 5 + changed, 6, len(old)) if is_found else None)


def test_a_last_line_without_an_end_belongs_to_no_order():
    """It may be the beginning of a longer line."""
    old, new = "Tools:\n- one\n- six\n- six", "Tools:\n- six\n- one\n- six"
    region = ChangedRegion(9, len(old), len(new), len(old))
    assert reordered_lines(TokenPositions(old, len(old), Words()), new, region, 9) == []
    region = region._replace(end=len(old) + 1)
    assert reordered_lines(TokenPositions(f"{old}\n", len(old) + 1, Words()), f"{new}\n", region, 9)
