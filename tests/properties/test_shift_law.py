"""Law of context shifts for all engines: the answer is that of a cold run that shifts at the same tokens.

llama.cpp and ik_llama.cpp shift, and report it in ``Answer.shifts``. mlx-lm's server does not shift: it passes no cache
size to its models. A window belongs to the model, and a cold run has it, too; mlx-lm's answers are judged without a
shift.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.registry import ENGINES
from cachesim.judging.compare_answer import Judge
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import SilentObserver, play

DRAFTS = "drafts=3:1,2:0,3:3,4:2,3:1,3:0,3:1,3:2,3:3 draft_else=3"
SERVERS = [
    ("llama_cpp@b11549", "A", {}), ("llama_cpp@b10587", "W8 A", {}), ("llama_cpp@b10587", "GA", {}),
    ("llama_cpp@b10587", "AA", {"spec_type": "ngram-simple"}), ("llama_cpp@b10587", "A+M", {"spec_type": "draft-mtp"}),
    ("ik_llama@main", "A", {}), ("ik_llama@main", "W8 A", {}), ("ik_llama@1295", "A", {}),
    ("ik_llama@main", "A", {"spec_type": "ngram-simple"}), ("ik_llama@main", "A+M", {"spec_type": "mtp"}),
]  # fmt: skip
LINES = ["A200>b80", "A200>b300{n_keep=10}", "A30>b260{n_keep=60}", "A200>b80{cancel_after=60}"]


def scenario(profile, model, line, **more):
    return from_line(line, model=model, profiles=(profile,), server={"ctx_size": 256, "context_shift": True, **more})


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(("profile", "model", "more"), SERVERS, ids=lambda one: str(one))
def test_a_shift_is_that_of_a_cold_run_that_shifts(profile, model, more, line):
    if more:
        line = f"{line[:-1]} {DRAFTS}}}" if line.endswith("}") else f"{line}{{{DRAFTS}}}"
    one = run_judged(scenario(profile, model, line, **more), profile, "provenance", with_ledger=False).requests[0]
    assert one.answer.shifts and (one.judged.answer.why, one.judged.state.why, one.judged.equal_cold) == ("", "", True)


def test_tokens_that_a_draft_leaves_behind_the_end_are_judged_too():
    """ik_llama.cpp: the answer ends inside an accepted draft, whose rest is in the slot."""
    profile = "ik_llama@main"
    case = scenario(profile, "A", "A200>b80{draft_else=2}", spec_type="ngram-simple")
    one = run_judged(case, profile, "exact", with_ledger=False).requests[0]
    assert len(one.answer.outputs) == len(one.answer.tokens) + 2
    assert one.judged.equal_cold is True


class Last(SilentObserver):
    """Keeps the server and its answer."""

    def started(self, server):
        self.server = server

    def answered(self, number, request, answer):
        self.request, self.answer = request, answer


@pytest.mark.parametrize("profile", ["llama_cpp@b10587", "ik_llama@main"])
def test_another_shift_would_be_seen(profile):
    last = Last()
    play(scenario(profile, "A", "A200>b80{n_keep=10}"), profile, "provenance", last)
    judge, live = Judge(last.server.model), last.server.inspection.live(0)
    assert judge.judge(last.request, last.answer, live).equal_cold is True
    [(held, n_keep, n_discard)] = last.answer.shifts
    for other in ((held - 1, n_keep, n_discard), (held, n_keep + 1, n_discard)):
        told = replace(last.answer, shifts=[other])
        assert judge.judge(last.request, told, live).equal_cold is False


def test_mlx_lm_has_no_shift_and_a_full_window_is_judged_without_one():
    assert ENGINES["mlx_lm"].manual.flag("context_shift") is None
    profile = "mlx_lm@0.32.2"
    case = from_line("A60>b40/A.b.c20>d30", model="W8 W8", profiles=(profile,))
    requests = run_judged(case, profile, "provenance", with_ledger=False).requests
    assert [(one.answer.shifts, one.judged.equal_cold) for one in requests] == [([], True)] * 2
