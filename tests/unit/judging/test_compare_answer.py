"""Tests of the judge: its three verdicts, the comparison levels, and undecided cases that must not count as correct."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.engines.base import Answer, Output, Request
from cachesim.engines.inspection import RowsPart, StatePart, StoredObject
from cachesim.judging.compare_answer import NO_PLACE, OTHER_TEXT, Judge, RequestVerdict, evaluated
from cachesim.judging.verdict import CORRECT, RUNGS, Verdict, worst
from cachesim.judging.verdict_words import VerdictWord
from cachesim.model import KVRows, make_model, parse
from cachesim.oracle.cold_run import cold
from cachesim.oracle.shifted_run import CutAt, cold_shifted

PROMPT = tuple(range(100, 110))
TOKENS = (201, 202, 203)
HELD = (*PROMPT, *TOKENS[:-1])


def model(exact=False):
    return make_model(parse("GA"), exact=exact)


def right(mine):
    """Return a request, and the answer that a cold run gives."""
    logits_at = range(len(PROMPT) - 1, len(HELD))
    run = cold(mine, HELD, logits_at=tuple(logits_at))
    said = [Output(p, int(run.digests[p]), run.logits.get(p)) for p in logits_at]
    return Request(PROMPT, 3, TOKENS), Answer(0, tokens=list(TOKENS), outputs=said, slot_tokens=HELD)


@pytest.mark.parametrize("exact", [False, True])
def test_a_cold_answer_holds(exact):
    request, answer = right(model(exact))
    assert Judge(model(exact)).judge(request, answer, None).equal_cold is True


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_foreign_digest_breaks_the_answer_at_its_position(place):
    request, answer = right(model())
    answer.outputs[place] = answer.outputs[place]._replace(digest=7)
    verdict = Judge(model()).answer(request, answer)
    assert (verdict.equal_cold, verdict.rung, verdict.where) == (False, "provenance", 9 + place)
    assert verdict.numbers == {"position": 9 + place}


def test_one_bit_of_a_logit_breaks_the_answer_on_a_higher_rung():
    request, answer = right(model(exact=True))
    said = answer.outputs[1]
    low = said.logits.copy()
    low[int(low.argmin())] -= 1
    top = said.logits.copy()
    top[int(top.argmin())] = top.max() + 1
    found = []
    for logits in (low, top):
        answer.outputs[1] = said._replace(logits=logits)
        found.append(Judge(model(exact=True)).answer(request, answer).rung)
        assert Judge(model(exact=True)).answer(request, answer).numbers == {"position": 10}
    assert found == ["bits", "argmax"]


def test_a_slot_that_holds_other_tokens_than_were_asked_and_generated_is_broken():
    request, answer = right(model())
    answer.tokens[0] = 999
    verdict = Judge(model()).answer(request, answer)
    assert (verdict.equal_cold, verdict.rung) == (False, "provenance")
    assert Judge(model()).answer(Request((7, *PROMPT[1:]), 3), answer).equal_cold is False


@pytest.mark.parametrize("layers, holds", [("C W8", True), ("AA", False)])
def test_of_an_answer_that_went_on_from_another_text_what_was_said_is_judged(layers, holds):
    """The text was loaded into the slot during the prompt. A window and a short convolution do not reach so far."""
    mine, prompt = make_model(parse(layers), exact=True), tuple(range(100, 130))
    held = (7, 8, *prompt[2:])
    run = cold(mine, held, logits_at=(29,))
    answer = Answer(0, tokens=[1], outputs=[Output(29, int(run.digests[29]), run.logits[29])], slot_tokens=held)
    assert Judge(mine).judge(Request(prompt, 1, (1,)), answer, None).equal_cold is holds


OTHER = (7, *HELD[1:])


@pytest.mark.parametrize(("held", "cancelled", "outputs", "verdict"), [
    ((*OTHER, 5, 6), False, 3, OTHER_TEXT),                     # longer than the request and its answer
    ((*HELD, 203, 6), False, 5, CORRECT), (OTHER, False, 2, OTHER_TEXT), (HELD, False, 2, NO_PLACE),
    (OTHER, False, 3, OTHER_TEXT), (OTHER, True, 2, OTHER_TEXT), (HELD, True, 2, CORRECT), (HELD, False, 3, CORRECT),
    ((*PROMPT, 201, 9), True, 3, OTHER_TEXT), ((*PROMPT, 201, 9), True, 2, CORRECT), ((*PROMPT, 9), True, 1, CORRECT),
])  # fmt: skip
def test_a_slot_with_another_text_is_wrong_unless_its_outputs_are_those_of_the_request(held, cancelled, outputs,
                                                                                       verdict):  # fmt: skip
    """The outputs are those of a cold run of the tokens in the slot."""
    mine = model()
    logits_at = range(len(PROMPT) - 1, len(held))
    run = cold(mine, held, logits_at=tuple(logits_at))
    said = [Output(pos, int(run.digests[pos]), None) for pos in logits_at]
    answer = Answer(0, tokens=list(TOKENS), outputs=said[:outputs], slot_tokens=held, cancelled=cancelled)
    assert Judge(mine).answer(Request(PROMPT, 3, TOKENS), answer) == verdict


@pytest.mark.parametrize(("prompt", "fields", "compared"), [
    (PROMPT, {"status": 500}, False), ((), {}, False), ((), {"tokens": [1]}, True), (PROMPT, {}, True),
    (PROMPT, {"prompt": ()}, False),
])  # fmt: skip
def test_an_answer_without_tokens_or_with_an_error_is_not_compared(prompt, fields, compared):
    verdict = Judge(model()).answer(Request(prompt), Answer(0, outputs=[Output(99, 0, None)], **fields))
    assert verdict == (NO_PLACE if compared else CORRECT)


def test_the_last_token_was_never_evaluated():
    request, answer = right(model())
    answer.tokens[-1] = 999
    assert Judge(model()).answer(request, answer).equal_cold is True


def test_of_a_cancelled_answer_what_was_said_is_judged():
    request, answer = right(model())
    answer.cancelled, answer.outputs = True, answer.outputs[:1]
    assert Judge(model()).judge(request, answer, None).equal_cold is True
    answer.outputs = [answer.outputs[0]._replace(digest=7)]
    assert Judge(model()).judge(request, answer, None).equal_cold is False


def test_an_answer_that_does_not_say_where_it_spoke_is_undecided():
    request, answer = right(model())
    for outputs in (answer.outputs[:-1], answer.outputs[1:], []):
        answer.outputs = outputs
        assert Judge(model()).judge(request, answer, None).equal_cold is None


def test_without_a_model_everything_is_undecided():
    request, answer = right(model())
    slot = StoredObject("slot", 0, HELD, len(HELD), (), None)
    judged = Judge(None).judge(request, answer, slot)
    assert (judged.answer.equal_cold, judged.state.equal_cold, judged.equal_cold) == (None, None, None)


@pytest.mark.parametrize("wrong", [False, True])
def test_what_a_request_left_behind_is_judged(wrong):
    request, answer = right(model())
    digest = cold(model(), HELD, logits_at=()).rows(1).digest + np.uint64(wrong)
    part = RowsPart(0, np.arange(len(HELD)), {1: KVRows(digest, None, None)})
    judged = Judge(model()).judge(request, answer, StoredObject("slot", 0, HELD, len(HELD), (part,), None))
    assert (judged.answer.equal_cold, judged.state.equal_cold, judged.equal_cold) == (True, not wrong, not wrong)


def test_a_refused_request_holds_and_a_dead_server_does_not():
    request, _ = right(model())
    assert Judge(model()).answer(request, Answer(0, status=400)).equal_cold is True
    verdict = Judge(model()).judge(request, Answer(0, died=True, error="why"), None).answer
    assert (verdict.equal_cold, verdict.rung, verdict.why) == (False, "aborted", "the server stopped: why")


def test_an_object_said_to_hold_more_than_its_tokens_is_broken_and_an_empty_one_holds():
    judge = Judge(model())
    assert judge.stored(StoredObject("checkpoint", 0, HELD, len(HELD) + 1, (), None)).equal_cold is False
    assert judge.stored(StoredObject("slot", 0, (), 0, (), None)).equal_cold is True


BROKEN = [Verdict(VerdictWord.WRONG, rung) for rung in RUNGS]
UNDECIDED = Verdict(VerdictWord.UNDECIDED)


@pytest.mark.parametrize(
    "verdicts, want",
    [
        ([], CORRECT),
        ([CORRECT, UNDECIDED], UNDECIDED),
        ([UNDECIDED, BROKEN[0], CORRECT], BROKEN[0]),
        (BROKEN, BROKEN[-1]),
        (BROKEN[::-1], BROKEN[-1]),
    ],
)
def test_the_worst_wins(verdicts, want):
    assert worst(verdicts) is want


@pytest.mark.parametrize("verdict, word", [(CORRECT, "correct"), (UNDECIDED, "undecided"), (BROKEN[0], "wrong")])
def test_a_verdict_in_one_word(verdict, word):
    assert verdict.word == word


def test_every_further_completion_is_judged():
    request, answer = right(model())
    _, child = right(model())
    answer.children.append(child)
    assert Judge(model()).judge(request, answer, None).equal_cold is True
    child.outputs[2] = child.outputs[2]._replace(digest=7)
    found = Judge(model()).judge(request, answer, None)
    assert (found.equal_cold, found.answer.where) == (False, 11)


def test_an_answer_with_a_context_shift_is_judged_with_and_without_its_slot():
    """Of 11 tokens, 4 are removed. A cold run without the shift would give other outputs."""
    mine, shift = model(), (11, 2, 4)
    said, store = cold_shifted(mine, PROMPT, TOKENS[:-1], [CutAt(*shift)])
    outputs = [Output(pos, one.digest, None) for pos, one in zip((9, 10, 7), said, strict=True)]
    answer = Answer(0, tokens=list(TOKENS), outputs=outputs, slot_tokens=(*HELD[:2], *HELD[6:]), shifts=[shift])
    held = StoredObject("slot", 0, answer.slot_tokens, store.n, (RowsPart(0, np.arange(store.n), {1: store.rows(1)}),),
                        StatePart(store.n - 1, {0: store.state_at(0, store.n)}))  # fmt: skip
    lost = held._replace(state=StatePart(store.n - 1, {0: None}))

    def verdicts(slot):
        judged = Judge(mine).judge(Request(PROMPT, 3, TOKENS), answer, slot)
        return judged.answer.equal_cold, judged.state.equal_cold

    assert [verdicts(slot) for slot in (None, held, lost)] == [(True, True), (True, True), (True, False)]
    answer.outputs = [*outputs[:2], outputs[2]._replace(digest=7)]
    assert verdicts(held) == (False, True)
    answer.outputs = outputs[:2]
    assert verdicts(held) == (None, True)


TALK, OTHER = HELD, (*HELD[:6], 7, *HELD[7:])


def part_of(tokens, n, start=0, exact=True):
    """An object with the rows and the state that a cold run has after the first n of these tokens."""
    run = cold(model(exact), tokens[:n], logits_at=(), marks=(n,))
    rows = {1: KVRows(*(None if one is None else one[start:].copy() for one in run.rows(1)))}
    state = StatePart(n - 1, {0: run.state_at(0, n)})
    return StoredObject("checkpoint", 0, tokens[:n], n, (RowsPart(0, np.arange(start, n), rows),), state, start)


def several(exact=True, talk=TALK, second=OTHER):
    """Objects of two conversations in no order. Two of them are equal, three belong to both conversations, another ends
    before its tokens do."""
    found = [part_of(talk, 4, 0, exact), part_of(second, 9, 0, exact), part_of(talk, 12, 0, exact),
             part_of(talk, 4, 0, exact), part_of(second, 3, 0, exact), part_of(talk, 9, 5, exact),
             part_of(talk, 12, 8, exact), part_of(talk, 7, 0, exact)._replace(tokens=talk[:11])]  # fmt: skip
    return {("checkpoint", 0, number): one for number, one in enumerate(found)}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("talk", "second"), [(TALK, OTHER), (OTHER, TALK)], ids=["greater", "less"])
def test_all_objects_of_several_conversations_are_correct(exact, talk, second):
    judge, objects = Judge(model(exact)), several(exact, talk, second)
    verdicts = judge.each_stored(objects)
    assert list(verdicts) == list(objects) and all(one == CORRECT for one in verdicts.values())


@pytest.mark.parametrize("fault", ["row", "number", "state", "state's number", "too short"])
@pytest.mark.parametrize("number", range(8))
def test_a_wrong_object_is_found_whichever_of_several_it_is(number, fault):
    objects = several()
    wrong = objects["checkpoint", 0, number]
    rows, state = wrong.rows[0].rows[1], wrong.state.rows[0]
    if fault == "row":
        rows.digest[-1] += np.uint64(1)
    elif fault == "number":
        rows.k[0, 0, 0] += 1
    elif fault == "state":
        wrong.state.rows[0] = state._replace(conv=state.conv + np.uint64(1))
    elif fault == "state's number":
        wrong.state.rows[0] = state._replace(h=state.h + 1)
    else:
        objects["checkpoint", 0, number] = wrong._replace(resume=wrong.resume - 1)
    verdicts = Judge(model(exact=True)).each_stored(objects)
    assert [key[2] for key, verdict in verdicts.items() if not verdict.equal_cold] == [number]
    rung = {"number": "bits", "state's number": "bits"}.get(fault, "provenance")
    assert verdicts["checkpoint", 0, number].rung == rung


def test_an_object_under_the_tokens_of_another_conversation_is_wrong():
    objects = several()
    objects["checkpoint", 0, 2] = objects["checkpoint", 0, 2]._replace(tokens=(*TALK[:11], 7))
    verdicts = Judge(model(exact=True)).each_stored(objects)
    assert [key[2] for key, verdict in verdicts.items() if not verdict.equal_cold] == [2]


def test_an_object_without_a_usable_length_is_correct_up_to_its_tokens():
    objects = {("entry", -1, number): StoredObject("entry", -1, HELD[:n], resume, (), None)
               for number, (n, resume) in enumerate([(4, 0), (0, 0), (4, 5), (0, 1)])}  # fmt: skip
    verdicts = Judge(model(exact=True)).each_stored(objects).values()
    assert [one.equal_cold for one in verdicts] == [True, True, False, False]


def test_without_a_model_every_object_is_undecided():
    assert {one.equal_cold for one in Judge(None).each_stored(several()).values()} == {None}
    assert Judge(None).each_stored({}) == {} == Judge(model()).each_stored({})


def test_without_a_model_there_is_no_cold_run():
    judge = Judge(None)
    with pytest.raises(Crash, match="no cold run without a model"):
        judge.cold_runs  # noqa: B018
    assert Judge(model()).cold_runs.model.spec == model().spec


@pytest.mark.parametrize(("outputs", "tokens"), [(2, (1, 2)), (3, (1, 2)), (5, (1, 2, 8, 9)), (4, (1, 2, 9))])
def test_all_generated_tokens_but_the_last_were_evaluated_and_drafts_that_stayed(outputs, tokens):
    answer = Answer(0, tokens=[1, 2, 3], outputs=[Output(at, 0, None) for at in range(outputs)],
                    slot_tokens=(5, 1, 2, 8, 9))  # fmt: skip
    assert evaluated(answer) == tokens


def test_the_doubt_about_a_request_is_its_broken_verdict_or_that_of_the_answer():
    assert RequestVerdict(NO_PLACE, OTHER_TEXT).doubt is OTHER_TEXT
    assert RequestVerdict(NO_PLACE, NO_PLACE).doubt is NO_PLACE and RequestVerdict(CORRECT, NO_PLACE).doubt is CORRECT
    judged = RequestVerdict(NO_PLACE, OTHER_TEXT)
    assert judged.fault == OTHER_TEXT.why and RequestVerdict(NO_PLACE, CORRECT).fault == NO_PLACE.why
    assert RequestVerdict(CORRECT, CORRECT).fault == "" and OTHER_TEXT.why and NO_PLACE.why


def test_a_verdict_is_shown_with_what_differs_from_its_defaults():
    shown = repr(RequestVerdict(CORRECT, CORRECT, is_refused=True))
    assert shown.startswith("RequestVerdict(answer=Verdict(") and shown.endswith(", is_refused=True)")
    assert "armed" not in shown and "window" not in shown
