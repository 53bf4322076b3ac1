"""Tests of the parser of the notation: round trips, and errors with their place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.canonical_text import prompt_text, spell, step_text
from cachesim.scenarios.notation.parse import parse, parse_text
from cachesim.scenarios.notation.tree import Action, LineRequest, Piece
from cachesim.scenarios.notation.word_lengths import normal
from tests.unit.scenarios.notation.lines import lines


@settings(max_examples=40)
@given(lines())
def test_what_is_written_is_read_back(line):
    """Words too, and in their order, on which their tokens depend."""
    again = parse(spell(line))
    assert again == line
    assert list(again.words.items()) == list(line.words.items())


@given(st.text(alphabet="SAr40.|/[]:>!@ 1-", max_size=24) | st.text(alphabet="S4/{}=+ n1@sae", max_size=24)
       | st.text(alphabet="s:S4+ua.|>{}", max_size=16))  # fmt: skip
def test_what_is_read_is_canonical(text):
    """Whatever text is read at all: writing its tree and reading that changes nothing."""
    try:
        line = parse(text)
    except BadInput as bad:
        assert str(bad).startswith("column ") and "\n" not in str(bad)
        return
    assert normal(line) == line
    assert parse(spell(line)) == line


def test_a_tree_in_full():
    words, steps = parse("S40.|A60[:9]>r4!@1{n_cmpl=2 answers=q4 drafts=3:1,2:0}/u:S[3:]+a:>5{together+2}/{save@0 f}")
    assert words == {"S": 40, "A": 60, "r": 4, "q": 4}
    assert steps == (
        LineRequest((Piece("S"), Piece("A", True, None, 9)), (Piece("r"),), cache_prompt=False, id_slot=1, n_cmpl=2,
                    answers=((Piece("q"),),), drafts=((3, 1), (2, 0))),
        LineRequest((), n_predict=5, chat=(("user", (Piece("S", start=3),)), ("assistant", ())), together=True,
                    after=2),
        Action("save", 0, "f"),
    )  # fmt: skip


@pytest.mark.parametrize(("text", "canonical"), [
    (" S40[0:40] ", "S40"), ("S40>1", "S40"), ("S40 . A3/S40", "S40.A3/S"), ("A.A3", "A3.A"), ("S4{seed=False}", "S4"),
    ("S4{draft_else=2 n_keep=1}", "S4{n_keep=1 draft_else=2}"), ("S4/S{together after=2}", "S4/S{together+2}"),
    ("S4{n_discard=2147483647}", "S4{n_discard=2147483647}"),
    ("{restart parallel=2  parallel=3}", "{restart parallel=3}"), ("S4/{ save@0   f }", "S4/{save@0 f}"),
])  # fmt: skip
def test_other_spellings_become_canonical(text, canonical):
    assert spell(parse(text)) == canonical


@pytest.mark.parametrize(("text", "place"), [
    ("S40//B20", "column 5, request 1: no words"),
    ("  S40/A", "column 7, request 1: word 'A' has no length"),
    ("S40.B2.S41", "column 8, request 0: word 'S' has two lengths"),
    ("S40.A3[:4]", "column 5, request 0: slice A[0:4] is out of range"),
    ("S40[3:3]", "column 1, request 0: slice S[3:3] is out of range"),
    ("S4>2{n_cmpl=2 answers=a2/b2}", "column 15, request 0: answers has 2 entries, expected at most 1: "),
    ("S4{n_discard=2147483648}", "column 4, request 0: n_discard is 2147483648, it must be at most 2147483647"),
    ("S40>r4.|q2", "column 8, request 0: a user message cannot start in an answer"),
    ("S4/B4{after=3}", "column 7, request 1: after counts from the previous request, so it needs together = true"),
    ("S40@x", "column 4, request 0: 'S40@x' cannot be read"),
    ("S40@1>r4", "column 6, request 0: 'S40@1>r4' cannot be read"),
    ("A4/S4{n_cmpl=x}", "column 7, request 1: n_cmpl must be an integer"),
    ("A4/S4{n_keep=1 n_compl=2}", "column 16, request 1: unknown key 'n_compl' (did you mean 'n_cmpl'?)"),
    ("S4{n_keep=1 n_keep=2}", "column 13, request 0: 'n_keep=2' in braces cannot be read"),
    ("S4{seed}", "column 4, request 0: 'seed' in braces cannot be read"),
    ("S4{n_keep+1=2}", "column 4, request 0: 'n_keep+1=2' in braces cannot be read"),
    ("S4{id_slot=2}", "column 4, request 0: unknown key 'id_slot'"),
    ("S4/S{together+x}", "column 6, request 1: after must be an integer"),
    ("S4{seed=True together}", "column 14, request 0: together needs a request before it"),
    ("S4>2{n_keep=1 cancel_after=2}", "column 15, request 0: cancel_after is 2, but the answer ends after 2"),
    ("S4>2{n_cmpl=2 answers=a2.b1}", "column 15, request 0: every completion has 2 tokens"),
    ("S4>2{n_cmpl=2 answers=a1.|b1}", "column 26, request 0: a user message cannot start"),
    ("u:S4+x:S", "column 6, request 0: unknown role 'x'"),
    ("S4/{sav@0 f}", "column 5, request 1: unknown server action 'sav' (did you mean 'save'?)"),
    ("S4/{save@0 f}/{restore@0 g}", "column 26, request 2: file 'g' was not saved before"),
    ("{save@-1 f}", "column 7, request 0: id_slot is -1, it must be at least 0"),
    ("{save@0}", "column 2, request 0: file is missing"),
    ("{erase@0 f}", "column 10, request 0: erase takes no file"),
    ("{restart@0}", "column 10, request 0: restart takes no id_slot"),
    ("{save@0 f parallel=2}", "column 11, request 0: save takes no option"),
    ("{}", "column 2, request 0: unknown server action ''"),
])  # fmt: skip
def test_what_is_wrong_has_its_place(text, place):
    with pytest.raises(BadInput) as caught:
        parse(text)
    assert str(caught.value).startswith(place)


def test_whoever_knows_the_options_says_what_is_wrong_with_them():
    def setting(name, text):
        if name != "known":
            raise BadInput("no such option", hint="known")
        return name, len(text)

    assert parse("{restart known=abc}", setting).steps == (Action("restart", server=(("known", 3),)),)
    with pytest.raises(BadInput, match=r"column 10, request 0: no such option \(known\)"):
        parse("{restart other=1}", setting)


def test_a_text_of_a_file_has_no_lengths_and_no_place():
    assert parse_text("S.|U[2:9]") == (Piece("S"), Piece("U", True, 2, 9))
    for text, told in (("S.A3", "A3: lengths belong in [words]"), ("S.", "'' is not a word"), (" ", "no words")):
        with pytest.raises(BadInput) as caught:
            parse_text(text)
        assert str(caught.value).startswith(told)


def test_a_step_without_lengths():
    _, steps = parse("S40.A60[:9]>r4!@1/{restart parallel=2}/u:S>3")
    assert [step_text(step) for step in steps] == ["S.A[:9]>r!@1", "restart parallel=2", "u:S>3"]
    assert [prompt_text(step) for step in steps] == ["S.A[:9]", "restart parallel=2", "u:S"]


@pytest.mark.parametrize(("text", "action"), [
    ("{lora 0:1,2:0.5}", Action("lora", scales="0:1,2:0.5")), ("{lora}", Action("lora")),
    ("{save@2 f}", Action("save", 2, "f")), ("{restore@0 f percent=60}", Action("restore", 0, "f", percent=60)),
    ("{restart parallel=2 kv_unified=True}", Action("restart", server=(("parallel", 2), ("kv_unified", True)))),
    ("{restart}", Action("restart")), ("{erase@1}", Action("erase", 1)),
])  # fmt: skip
def test_an_action_in_full(text, action):
    *_, step = parse(f"{{save@0 f}}/A4/{text}").steps
    assert step == action and step_text(action) == prompt_text(action) == text[1:-1]


@pytest.mark.parametrize("text", [
    "A", "A>2", "A!", "A>2!@1", "|A[2:5]>r", "A[:5]", "A[3:]", "u:A+a:", "A{n_keep=-1 drafts=3:1 together+2}",
    "A>2{n_cmpl=3 answers=r[:2]/r[2:]}", "A{together}",
])  # fmt: skip
def test_a_request_is_written_without_the_lengths_of_its_words(text):
    *_, step = parse(f"A9.r4/{text}").steps
    assert step_text(step) == text
