"""Outcomes that occur in drawn campaigns on SGLang's trees, and whether the released trees refute another answer."""

from __future__ import annotations

from functools import cache

from cachesim.engines.rule_outcomes import TooManyDecisions, limit_decisions, replace_outcome, report_outcomes
from cachesim.engines.sglang import PROFILES
from cachesim.judging.evidence import ENDLESS
from tests.evidence.search import Found
from tests.evidence.survey import variants
from tests.peers.sglang_campaign import STORED, digest, stored

ENGINE = "sglang"
TRIED = 15                      # campaigns of each release
ASKED = ("SG-MATCH-", "SG-SPLIT-", "SG-INSERT-", "SG-WINDOW-LIVE", "SG-WINDOW-REVIVE", "SG-EVICT-", "SG-STATE-PATH",
         "SG-STATE-KEEP", "SG-HOST-COUNT-USE")  # fmt: skip
"""Beginnings of the ids of rules that trees ask; other rules are asked when a tree is made, and change nothing here."""


@cache
def met():
    """Return the campaigns (release, number) in which an outcome with an alternative answer occurs, by outcome and
    answer, and the number of decisions of each campaign."""
    found, asked = {}, {}
    for release, digests in stored().items():
        rules = PROFILES[f"{ENGINE}@{release}"]
        for number, told in enumerate(digests[:TRIED]):
            place = release, number
            asked[place] = 0

            def hear(outcome, others, place=place):
                asked[place] += 1
                for other in others:
                    found.setdefault((outcome, other), {})[place] = None

            assert digest(report_outcomes(rules, variants(ENGINE), hear), number, rules) == told, place
    return found, asked


def pairs(refuted):
    """Return every outcome that occurs with every alternative answer, without those that are ``refuted``."""
    return [pair for pair in sorted(met()[0]) if pair not in refuted and pair[0].rule.startswith(ASKED)]


def search(pair):
    """Return the first campaign whose digest differs with an alternative answer."""
    outcome, other = pair
    campaigns, asked = met()
    crashes = 0
    for release, number in campaigns[pair]:
        own = PROFILES[f"{ENGINE}@{release}"]
        rules = replace_outcome(own, variants(ENGINE), outcome, other)
        rules = limit_decisions(rules, ENDLESS * (1 + asked[release, number]))
        try:
            differs = digest(rules, number, own) != stored()[release][number]
        except (Exception, TooManyDecisions):      # the simulated tree cannot continue
            crashes += 1
            continue
        if differs:
            return Found(ENGINE, outcome, other, STORED, number, f"release {release} campaign")
    return Found(ENGINE, outcome, other, crashes=crashes > 0)
