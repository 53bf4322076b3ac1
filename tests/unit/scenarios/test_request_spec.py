"""Tests of steps made of parsed requests: tokens of words, fields of requests, limits."""

from __future__ import annotations

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.shared.vocab import PIECES
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.tree import Action, LineRequest, Piece
from cachesim.scenarios.notation.word_lengths import ImageSize
from cachesim.scenarios.request_spec import CERTAIN, Words, expand, make_steps, with_word_names, with_words
from cachesim.scenarios.schema import Step

WORDS = {"A": 3, "B": 2, "I": ImageSize(2, 3), "NULL": 1, "THINK": 1, "C": 1}
A, B = (1000, 1001, 1002), (1_001_000, 1_001_001)


def pieces(*names):
    return tuple(Piece(name) for name in names)


@pytest.mark.parametrize(("text", "tokens"), [
    ((), ()), (pieces("A", "B"), (*A, *B)), (pieces("C"), (5_001_000,)), (pieces("NULL"), (-1,)),
    ((Piece("A", start=1), Piece("A", stop=1), Piece("B", start=1, stop=2)), (*A[1:], A[0], B[1])),
    (pieces("I"), image_items("2", 6, 3)),
])  # fmt: skip
def test_the_tokens_of_a_word_depend_on_its_place(text, tokens):
    assert expand(text, WORDS) == tokens


def test_the_length_of_an_image_in_positions_is_its_longer_side():
    assert expand(pieces("I"), {"I": ImageSize(4, 2)}) == image_items("0", 8, 4)


def test_the_think_token_is_that_of_the_template():
    [token] = expand(pieces("THINK"), WORDS)
    assert 0 <= token < 1000


def test_whole_words_are_kept_for_later_texts():
    made = {}
    expand((Piece("A", stop=1),), WORDS, made)
    assert made == {"A": A}
    assert expand(pieces("A"), WORDS, {"A": (7, 8, 9)}) == (7, 8, 9)


def test_a_spelled_word_has_the_tokens_of_its_pieces():
    words = Words()
    words["A"] = 3
    words.spell("w", [PIECES[5], PIECES[300], PIECES[5]])
    assert (words, words.spelled) == ({"A": 3, "w": 3}, {"w": (5, 300, 5)})
    assert expand((Piece("w", start=1), Piece("A")), words) == (300, 5, *A)
    for wrong in ("no piece", 3):
        with pytest.raises(BadInput) as bad:
            words.spell("v", [PIECES[5], wrong])
        assert str(bad.value) == f"word 'v': {wrong!r} is not a piece of the recorded vocabulary"


def test_options_name_the_tokens_of_words():
    given = {"lora": "a@B:0.5, b@X", "n": 3, "text": "A"}
    assert with_words(given, WORDS) == {"lora": "a@1001000.1001001:0.5, b@X", "n": 3, "text": "A"}


def steps_of(line, **more):
    parsed = parse(line)
    return make_steps(parsed.steps, parsed.words, **more)


def test_a_request_has_every_field_of_its_notation():
    asked = LineRequest(
        (Piece("A"), Piece("B", user=True)), answer=pieces("B"), n_predict=2, cache_prompt=False, id_slot=1,
        task="infill", n_keep=4, n_discard=5, n_cache_reuse=6, n_cmpl=2, answers=(pieces("A"),), cancel_after=2,
        draft_else=3, seed=True, extra=(("lora", "0:1"),),
    )  # fmt: skip
    [step] = make_steps([asked], WORDS, why=["because"])
    assert step == Step(Request(
        (*A, *B), user_starts=(3,), kind="infill", n_predict=2, forced=B, children_forced=(A,), cache_prompt=False,
        id_slot=1, n_keep=4, n_discard=5, n_cache_reuse=6, n_cmpl=2, draft_else=3, cancel_at=6, seed=True,
        extra={"lora": "0:1"},
    ), asked._replace(n_predict=None), "because")  # fmt: skip


def test_a_request_without_fields_has_their_defaults():
    [step] = make_steps([LineRequest(pieces("A"))], WORDS)
    assert step == Step(Request(A), LineRequest(pieces("A")), "")
    assert make_steps([LineRequest(pieces("A"), n_predict=-1)], WORDS)[0].request.n_predict == -1


@pytest.mark.parametrize(("generated", "held"), [(0, 1), (1, 3), (2, 4)])
def test_a_disconnect_is_counted_in_the_slot(generated, held):
    [step] = make_steps([LineRequest(pieces("A"), n_predict=9, cancel_after=generated)], WORDS)
    assert step.request.cancel_at == held


def test_an_action_is_a_step_without_a_prompt():
    restart = Action("restart")
    steps = make_steps([restart, LineRequest(pieces("A"))], WORDS, why=["first", "second"])
    assert steps[0] == Step(Request(()), restart, "first") and steps[1].why == "second"


def test_a_chat_is_rendered_with_the_template_of_the_server():
    plain, terse = (steps_of("s:S4+u:A5", server={"template": name})[0].request for name in ("plain", "terse"))
    assert [message.role for message in plain.messages] == ["system", "user"]
    assert [len(message.content) for message in plain.messages] == [4, 5]
    assert len(terse.prompt) != len(plain.prompt) > 9 and steps_of("s:S4+u:A5")[0].request == plain


@pytest.mark.parametrize(("line", "limit", "size", "what"), [
    ("A5/A.B3", limits.PROMPT_TOKENS, 13, "all prompts together"),
    ("A5>r4/A>3{n_cmpl=2}", limits.NEW_TOKENS, 10, "all answers together"),
    ("A5>r4/A>3{n_cmpl=2}", limits.SAMPLED_TOKENS, 6, "all answers without a text together"),
    ("A5>300/A", limits.SAMPLED_TOKENS, CERTAIN + 1, "all answers without a text together"),
    ("A5>300{cancel_after=7}", limits.SAMPLED_TOKENS, 7, "all answers without a text together"),
    ("A5>-1", limits.SAMPLED_TOKENS, 0, ""),
])  # fmt: skip
def test_prompts_and_answers_are_bounded_in_total(line, limit, size, what):
    limits.lift({limit.name: size})
    steps_of(line)
    if size:
        limits.lift({limit.name: size - 1})
        with pytest.raises(BadInput, match=what):
            steps_of(line)


def test_tokens_of_words_in_options_are_named_again():
    given = {"lora": "a@B:0.5, b@X", "n": 3, "text": "A"}
    assert with_word_names(with_words(given, WORDS), WORDS) == given
    strange = {"lora": "a@1001000:0.5, b@7.8.9"}
    assert with_word_names(strange, WORDS) == strange, "a part of a word, and tokens of no word"
