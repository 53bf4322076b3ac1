"""Kept, restored, loaded and evaluated tokens of a request are its prompt, or the data name the exception."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import BUILTIN, present_name
from cachesim.judging.judged_run import run_judged
from cachesim.judging.run_data import run_data
from cachesim.tools.search.drawn_conversation import draw_conversation
from tests.scenarios.whole import corpus

FEW, MANY = range(2), range(2, 9)        # seeds of the default suite, and of `make long`
PARTS = ("kept", "restored", "loaded", "computed")
SHORTENED_BY = {"llama_cpp", "ik_llama"}        # only these cut a prompt that is too long


def check(scenario, profile):
    """Check every request of a scenario; return the exceptions that occurred."""
    data = run_data(run_judged(scenario, profile, "provenance", with_ledger=False))
    found = set()
    for one in data["requests"]:
        where = (scenario.id, repr(scenario), profile, one)
        total = sum(one[part] for part in PARTS)
        assert min(one[part] for part in PARTS) >= 0, where
        assert (total == one["prompt"]) == (not one["not_summed"]), where
        assert one["cache_n"] == total - one["computed"], where
        reason = one["not_summed"]
        found.add(reason)
        assert {
            "": True, "died": one["died"], "error": one["status"] != 200, "cancelled": one["cancelled"],
            "not answered": one["verdict"] in ("NEVER ANSWERED", "UNDECIDED") and total == 0,
            "shortened": total < one["prompt"] and scenario.engine in SHORTENED_BY,
            "counted twice": total == one["prompt"] + 1 == one["cache_n"] + 1,
            "begun again": total > one["prompt"], "system prompt": total > one["prompt"],
        }[reason], where  # fmt: skip
    return found


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"])
@pytest.mark.parametrize("engine", BUILTIN)
def test_the_tokens_of_every_drawn_request_add_up_to_its_prompt(engine, seeds):
    profile, found = present_name(engine), set()
    for seed in seeds:
        try:
            scenario = draw_conversation(seed, engine).scenario(profile)
        except BadInput:
            continue
        found |= check(scenario, profile)
    assert "" in found


@pytest.mark.long
@pytest.mark.parametrize("engine", BUILTIN)
def test_the_tokens_of_requests_of_the_corpus_add_up_to_their_prompts(engine):
    """Of every fifth scenario."""
    for scenario in [one for one in corpus() if one.engine == engine][::5]:
        check(scenario, scenario.profiles[0])
