"""Outcomes of the rules of vLLM's start, which the released configuration classes refute with another answer."""

from __future__ import annotations

from ast import literal_eval

from cachesim.engines.rule_outcomes import Outcome, alternatives, case_of
from cachesim.engines.vllm.profiles import PROFILES
from tests.evidence.search import Found
from tests.evidence.survey import variants
from tests.shared import ROOT

ENGINE = "vllm"
STORED = ROOT / "tests" / "unit" / "engines" / "vllm" / "released_defaults.txt"
ARGUMENTS = {"async_scheduling": 1, "batch_size": 1, "prefix_caching": 1, "mamba_cache_mode": 3}


def found():
    """Return a finding for each other answer to an outcome that occurs in the stored lines."""
    pairs = {}
    for number, line in enumerate(STORED.read_text("utf-8").splitlines(), 1):
        release, _, rest = line.partition(" ")
        name, _, rest = rest.partition(" ")
        if name in ARGUMENTS:
            rule = getattr(PROFILES[f"{ENGINE}@{release}"], name)
            args = literal_eval(rest.partition(" = ")[0])[: ARGUMENTS[name]]
            answer = rule(*args)
            for other in alternatives(rule, answer, variants(ENGINE).get(name, []), args):
                pairs.setdefault((Outcome(rule.rule, case_of(answer)), other), number)
    return [Found(ENGINE, outcome, other, STORED, number, "line", False) for (outcome, other), number in pairs.items()]
