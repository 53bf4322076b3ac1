"""A list of the prompt cache costs nearly nothing, and its line about the loaded entry is read."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.watch import listed_lines
from cachesim.tools.watch.listed_lines import ListedLines
from tests.unit.tools.watch.test_log_rows import lines_of, rows_of

HEAD = "0.04.712.485 I srv          load: "
SEARCH = HEAD + " - looking for better prompt, base f_keep = -1.000, f_sim = 0.000"
CHOICE = HEAD + " - found better prompt with f_keep = 0.523, f_sim = 0.667"
ENTRY = "0.04.712.699 I srv        update:    - prompt 0x556dd81adb60:      93 tokens, checkpoints:  2,     0.122 MiB"


def candidate(tokens, keep="0.100", sim="0.100"):
    return f"{HEAD}   - prompt with length {tokens:>7}, lcp =      80, f_keep = {keep}, f_sim = {sim}"


def needed(*lines, engine="llama_cpp"):
    listed = ListedLines(grammars()[engine])
    return [found for number, line in enumerate(lines, 1) if not listed.is_listed(number, line)
            for found in (*listed.loaded(line), (number, line))]  # fmt: skip


def test_only_the_candidates_with_the_shares_of_the_loaded_entry_are_read():
    lines = [SEARCH, candidate(1), candidate(2, "0.523", "0.667"), candidate(3, "0.523"), ENTRY, CHOICE, "more"]
    assert needed(*lines) == [(1, SEARCH), (3, lines[2]), (6, CHOICE), (7, "more")]


def test_candidates_of_an_earlier_search_are_not_those_of_a_later_choice():
    lines = [SEARCH, candidate(2, "0.523", "0.667"), SEARCH, candidate(3), CHOICE]
    assert needed(*lines) == [(1, SEARCH), (3, SEARCH), (5, CHOICE)]


def test_too_many_candidates_prove_nothing(monkeypatch):
    monkeypatch.setattr(listed_lines, "HELD", 3)
    for most in (3, 4, 7):
        lines = [SEARCH, *(candidate(number, "0.523", "0.667") for number in range(most)), CHOICE]
        assert needed(*lines) == [(1, SEARCH), (most + 2, CHOICE)]


@pytest.mark.parametrize("line", [
    ENTRY + "0.04.712.700 I slot      release: id  1 | task 9 | stop processing: n_tokens = 153, truncated = 0",
    "0.04.712.485 I slot      release: id  1 | task 9 | stop processing: n_tokens = 153, truncated = 0" + ENTRY,
    ENTRY[:90], "{" + ENTRY, '"' + ENTRY, "a question - prompt me",
])  # fmt: skip
def test_a_line_that_may_hold_another_message_is_read(line):
    assert needed(line) == [(1, line)]


def test_a_list_of_another_engine():
    line = ("   - prompt 0x556dd81adb60:      93 tokens,       0 discarded, checkpoints:  2,     0.122 MiB")
    assert needed(line, engine="ik_llama") == [] and needed(line) == needed(line, engine="vllm") == [(1, line)]


def test_long_lists_change_no_row():
    """The rows are those of a short list, but for the numbers of their lines."""
    lines = lines_of("verbosity_4.log")
    longer = [one for line in lines for one in (
        [*[candidate(number) for number in range(90)], line] if "found better" in line or "checking sim" in line else
        [line, *[ENTRY] * 90] if " - prompt 0x" in line else [line])]  # fmt: skip
    assert len(longer) > 700

    def without_lines(rows):
        return [{**row, "lines": 0, "causes": [{**one, "lines": 0} for one in row["causes"]]} for row in rows]

    assert without_lines(rows_of(longer)[1]) == without_lines(rows_of(lines)[1])


def test_candidates_are_read_before_one_choice_only():
    lines = [SEARCH, candidate(2, "0.523", "0.667"), CHOICE, CHOICE, candidate(3, "0.523", "0.667"), CHOICE]
    assert needed(*lines) == [(1, SEARCH), (2, lines[1]), (3, CHOICE), (4, CHOICE), (5, lines[4]), (6, CHOICE)]


@pytest.mark.parametrize("spaces", [" ", "   "])
def test_the_fixed_words_of_a_choice_may_have_several_spaces_between(spaces):
    choice = CHOICE.replace("better prompt", f"better{spaces}prompt")
    lines = [candidate(2, "0.523", "0.667"), choice]
    assert needed(*lines) == [(1, lines[0]), (2, choice)]


@pytest.mark.parametrize(("head", "is_listed"), [("x" * 64, True), ("x" * 65, False), ("x | ", False), ("", True)])
def test_a_listed_line_has_a_short_prefix(head, is_listed):
    line = head + ENTRY[ENTRY.index("- prompt") :]
    assert needed(line) == ([] if is_listed else [(1, line)])


def test_signs_of_other_forms_matter_before_a_listed_line_only():
    assert needed(ENTRY.replace("0x556dd81adb60", '"{x}|"')) == []


def test_lines_with_a_carriage_return_are_listed():
    assert needed(ENTRY + "\r") == needed(ENTRY) == [] and needed(ENTRY + "\rx") == [(1, ENTRY + "\rx")]


@pytest.mark.parametrize(("line", "is_listed"), [(ENTRY, True), (candidate(1), True), (CHOICE, False), ("x", False),
                                                 ("x - prompt me", False), ("|" + ENTRY, False)])  # fmt: skip
def test_lines_of_a_list(line, is_listed):
    assert ListedLines(grammars()["llama_cpp"]).is_listed(1, line) is is_listed


def test_other_lines_between_the_candidates_and_the_choice_change_nothing():
    lines = [SEARCH, candidate(2, "0.523", "0.667"), "more", CHOICE]
    assert needed(*lines) == [(1, SEARCH), (3, "more"), (2, lines[1]), (4, CHOICE)]
