"""Tests of answers without a length: the server ends them."""

from __future__ import annotations

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.notation.shrink import shrink
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from tests.unit.scenarios.samples import GOOD

LLAMA, IK = "llama_cpp@b11549", "ik_llama@main"
SMALL = {"ctx_size": 256, "parallel": 1}


def answers(profile, line="A20>-1/A.B5>-1", **server):
    run = run_judged(from_line(line, model="A", profiles=(profile,), server={**SMALL, **server}), profile, "provenance")
    return [one.answer for one in run.requests]


def test_llama_cpp_ends_where_the_context_does():
    """The last token is sampled and not evaluated; a full context holds 255 tokens."""
    assert [(len(one.tokens), one.cache_n, one.stop_type) for one in answers(LLAMA)] == [
        (256 - 20, 0, "limit"), (256 - 25, 20, "limit")]  # fmt: skip


@pytest.mark.parametrize("profile", [LLAMA, "llama_cpp@b9518", IK])
@pytest.mark.parametrize("ctx_size", [0, 1024])
def test_an_answer_ends_where_the_trained_context_does(profile, ctx_size):
    (one,) = answers(profile, "A500>-1", ctx_size=ctx_size, n_ctx_train=512)
    assert (len(one.tokens), one.stop_type) == (12, "limit")


def test_ik_llama_shifts_until_the_length_it_was_trained_on():
    (one,) = answers(IK, "A20>-1", n_ctx_train=600)
    assert (len(one.tokens), one.stop_type) == (580, "limit") and one.shifts
    (one,) = answers(IK, "A20>-1", context_shift=False)
    assert one.status == 500


def test_ik_llama_cuts_a_prompt_that_is_longer_than_the_trained_context():
    (one,) = answers(IK, "A600>1", ctx_size=0, n_ctx_train=512)
    assert (one.truncated, one.prompt_n) == (True, 344)


def test_mlx_lm_wants_a_number():
    with pytest.raises(BadInput, match="not supported by this engine: n_predict = -1"):
        run_judged(from_line("A20>-1", model="A", profiles=("mlx_lm@0.32.2",)), "mlx_lm@0.32.2")


def test_too_much_is_refused_with_the_flag_that_allows_it():
    limits.lift({"sampled": 500})
    with pytest.raises(BadInput, match="--limit"):
        answers(LLAMA, "A20>-1", ctx_size=0)


def test_it_is_written_and_read_back(tmp_path):
    scenario = from_line("A20>-1{cancel_after=30}/A>3")
    assert repr(scenario) == "A20>-1{cancel_after=30}/A>3"
    assert [step.request.n_predict for step in scenario.steps] == [-1, 3]
    file = tmp_path / "good.toml"
    file.write_text(GOOD.replace("n_predict = 3", "n_predict = -1"))
    assert load(file).steps[1].request.n_predict == -1
    file.write_text(GOOD.replace("n_predict = 3", "n_predict = -2"))
    with pytest.raises(BadInput, match="n_predict"):
        load(file)


def test_the_shrinker_takes_it_away_or_keeps_it():
    case = ShrinkCase(from_line("A20.B5>-1/A>3").line, ())
    kept = shrink(case, lambda one: any(getattr(step, "n_predict", None) == -1 for step in one.line.steps))
    assert [step.n_predict for step in kept.line.steps] == [-1]
    gone = shrink(case, lambda one: len(one.line.steps) > 0)
    assert all(step.n_predict is None for step in gone.line.steps)
