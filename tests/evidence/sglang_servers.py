"""Outcomes that occur in drawn cases on SGLang's servers, and whether the released servers refute another answer."""

from __future__ import annotations

from functools import cache

from cachesim.engines.rule_outcomes import TooManyDecisions, limit_decisions, replace_outcome, report_outcomes
from cachesim.engines.sglang import PROFILES
from cachesim.judging.evidence import ENDLESS
from tests.evidence.search import Found
from tests.evidence.survey import variants
from tests.peers.sglang_turns import STORED, digest, stored

ENGINE = "sglang"
TRIED = 12                      # cases with an outcome, before its answer counts as not refuted


@cache
def met():
    """Return the cases (release, place) in which an outcome with an alternative answer occurs, by outcome and answer,
    and the number of decisions of each case."""
    found, asked = {}, {}
    for release, cases in stored().items():
        rules = PROFILES[f"{ENGINE}@{release}"]
        for place, (number, counts, told) in enumerate(cases):
            case = release, place
            asked[case] = 0

            def hear(outcome, others, case=case):
                asked[case] += 1
                for other in others:
                    found.setdefault((outcome, other), {})[case] = None

            assert digest(report_outcomes(rules, variants(ENGINE), hear), number, counts, rules) == told, case
    return found, asked


def pairs(refuted):
    """Return every outcome that occurs with every alternative answer, without those that are ``refuted``."""
    return [pair for pair in sorted(met()[0]) if pair not in refuted]


def search(pair):
    """Return the first case whose digest differs with an alternative answer."""
    outcome, other = pair
    cases, asked = met()
    crashes = tried = 0
    for release, place in list(cases[pair])[:TRIED]:
        tried += 1
        own = PROFILES[f"{ENGINE}@{release}"]
        number, counts, told = stored()[release][place]
        rules = replace_outcome(own, variants(ENGINE), outcome, other)
        rules = limit_decisions(rules, ENDLESS * (1 + asked[release, place]))
        try:
            differs = digest(rules, number, counts, own) != told
        except (Exception, TooManyDecisions):      # the simulated server cannot continue
            crashes += 1
            continue
        if differs:
            return Found(ENGINE, outcome, other, STORED, number, f"release {release} case")
    return Found(ENGINE, outcome, other, crashes=0 < crashes == tried)
