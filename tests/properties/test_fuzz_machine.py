"""Random requests to a server of each engine: the properties hold after each, under profiles without a reachable
defect.

Hypothesis draws the conversations: a rule-based machine per engine, which keeps all texts and extends them. The server
is judged as in the search, and every request of the machine is a step of its scenario so far.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cachesim.events import Log
from cachesim.scenarios.notation.tree import LineRequest, Piece
from cachesim.scenarios.option_checks import filled
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import ScenarioStage
from cachesim.scenarios.schema import Scenario
from cachesim.tools.search.invariant_observer import CheckedRun, InvariantObserver
from cachesim.tools.search.properties import PROPERTIES

SERVERS = {
    "llama_cpp@pr24143-on-b10587": ("llama_cpp", ("A", "AA"), {}),
    "llama_cpp@24035-v3": (
        "llama_cpp", ("S", "GA", "HH"), {"ctx_size": 256, "ubatch_size": 4, "checkpoint_min_step": 0},
    ),
    "ik_llama@main": ("ik_llama", ("A", "W8 A"), {"ctx_size": 256, "ubatch_size": 4}),
    "mlx_lm@0.32.2": ("mlx_lm", ("W8 A", "GA", "S"), {"prefill_step_size": 3}),
}

KNOWN = {"mlx_lm@0.32.2": ("survives",)}        # 7.1: a text that is stored as a whole ends the server


class Machine(RuleBasedStateMachine):
    """A server and its texts so far. A subclass sets ``profile``."""

    profile = ""

    @initialize(data=st.data())
    def start(self, data):
        engine, models, server = SERVERS[self.profile]
        self.words, self.texts, self.number = {}, [], 0
        self.server_options = filled(dict(server), engine)
        model = data.draw(st.sampled_from(models))
        scenario = Scenario("machine", "", (), "", engine, model, (self.profile,), self.server_options, self.words, ())
        self.played = CheckedRun(scenario, self.profile, Log())
        observer = InvariantObserver(self.played, {}, table=None)
        self.stage = ScenarioStage(scenario, self.profile, "provenance", Path("."), observer, self.profile)

    def word(self, length):
        name = "".join(chr(ord("a") + int(digit)) for digit in str(len(self.words)))
        self.words[name] = length
        return Piece(name)

    def ask(self, prompt, n_answer):
        asked = LineRequest(prompt, (self.word(n_answer),))
        self.stage.send(self.number, make_steps([asked], self.words, self.server_options))
        self.texts.append((*prompt, *asked.answer))
        self.number += 1
        assert self.played.steps[-1].answer.done or self.played.steps[-1].answer.died

    @rule(length=st.integers(1, 40), answer=st.integers(1, 4))
    def new(self, length, answer):
        self.ask((self.word(length),), answer)

    @precondition(lambda self: self.texts)
    @rule(at=st.integers(0, 5), length=st.integers(1, 12), answer=st.integers(1, 4))
    def next_turn(self, at, length, answer):
        self.ask((*self.texts[at % len(self.texts)], self.word(length)), answer)

    @precondition(lambda self: self.texts)
    @rule(at=st.integers(0, 5), keep=st.integers(1, 40), length=st.integers(1, 9), answer=st.integers(1, 3))
    def branch(self, at, keep, length, answer):
        first = self.texts[at % len(self.texts)][0]
        size = self.words[first.word]
        self.ask((first._replace(start=0, stop=min(keep, size)), self.word(length)), answer)

    @precondition(lambda self: self.texts)
    @rule(at=st.integers(0, 5), answer=st.integers(1, 3))
    def again(self, at, answer):
        self.ask(self.texts[at % len(self.texts)][:-1], answer)

    @invariant()
    def everything_holds(self):
        for name, check in PROPERTIES.items():
            if hasattr(self, "played") and name not in KNOWN.get(self.profile, ()):
                assert not list(check(self.played)), name


@pytest.mark.long
@pytest.mark.parametrize("profile", SERVERS)
def test_whatever_is_asked_the_properties_hold(profile):
    machine = type("Machine", (Machine,), {"profile": profile})
    run_state_machine_as_test(machine, settings=settings(
        max_examples=25, stateful_step_count=8, derandomize=True, deadline=None,
        suppress_health_check=list(HealthCheck),
    ))  # fmt: skip
