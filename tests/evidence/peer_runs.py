"""Outcomes that occur in the transcripts of the real mlx-lm 0.32.2, and whether each transcript refutes another
answer."""

from __future__ import annotations

import json
from functools import cache

from cachesim.engines.mlx_lm import PROFILES
from cachesim.engines.rule_outcomes import replace_outcome, report_outcomes
from tests.evidence.search import Found
from tests.evidence.survey import variants
from tests.peers import lru_talk, transcript
from tests.peers.bursts import PROFILE, TRANSCRIPT, repeat

ENGINE, RULES = "mlx_lm", PROFILES[PROFILE]


class Differs(Exception):
    """Difference between the simulation and the transcript."""


@cache
def _classes():
    return json.loads(transcript.PATH.read_text("utf-8"))


@cache
def _worlds():
    return json.loads(TRANSCRIPT.read_text("utf-8"))


@cache
def met():
    """Return the alternative answers to each outcome that occurs in a transcript, by outcome."""
    found = {}

    def hear(outcome, others):
        found.setdefault(outcome, set()).update(others)

    for place in places():
        play(place, report_outcomes(RULES, variants(ENGINE), hear))
    return found


def pairs():
    """Return every outcome that occurs in a transcript, with every alternative answer."""
    return [(outcome, other) for outcome, others in sorted(met().items()) for other in sorted(others)]


def places():
    """Return the parts of a transcript, quick parts first: bursts of a server, the prompt cache, the cache classes."""
    return [*range(len(_worlds())), "lru", "classes"]


def play(place, rules):
    """Repeat a part under a rule set. Raise Differs or AssertionError if the simulation differs."""
    if isinstance(place, int):
        repeat(_worlds()[place], rules)
        return
    recorded = _classes()
    digits, number = recorded[place], 0

    def told(answer):
        nonlocal number
        if digits[number : number + 8] != transcript.digest(answer):
            raise Differs(f"operation {number // 8}")
        number += 8

    if place == "lru":
        lru_talk.run(None, recorded["ops"][1], recorded["seed"], rules.lru, told)
    else:
        transcript.play_classes(rules.caches, None, recorded["ops"][0], recorded["seed"], told)


def search(pair):
    """Return the first part of a transcript that disagrees with an alternative answer."""
    outcome, other = pair
    rules, crashed = replace_outcome(RULES, variants(ENGINE), outcome, other), 0
    for place in places():
        file = TRANSCRIPT if isinstance(place, int) else transcript.PATH
        try:
            play(place, rules)
        except (AssertionError, Differs):
            bursts = isinstance(place, int)
            return Found(ENGINE, outcome, other, file, place if bursts else -1, "bursts" if bursts else place)
        except Exception:
            crashed += 1
    return Found(ENGINE, outcome, other, crashes=crashed > 0)
