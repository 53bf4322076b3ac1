"""Comparisons with the real b11549 from its wheel, if it is installed; otherwise they are reported as not run.

``cachesim real install b11549`` installs it. A drawn conversation, or a scenario, must come out as simulated.
"""

from __future__ import annotations

import json

import pytest

from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.real.comparison import compare_case
from cachesim.tools.live.llama_server.real.drawn_search import RealSearchPlan, RealTally, search_real
from cachesim.tools.live.llama_server.real.installation import is_installed
from cachesim.tools.live.llama_server.real.real_server import wheel_server
from cachesim.tools.live.llama_server.real.wheels import find_wheel
from tests.live.real_scenarios import EQUAL, file_of, state_of

BUILD, CONVERSATIONS, SCENARIOS = "b11549", 18, 16
WHEEL = find_wheel(BUILD)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not is_installed(WHEEL), reason=f"not run: cachesim real install {BUILD}"),
]


@pytest.mark.parametrize("part", range(2))
def test_drawn_conversations_come_out_as_simulated(part):
    tally = RealTally(wheel_server(WHEEL))
    for number in range(part, CONVERSATIONS, 2):
        search_real(tally, RealSearchPlan(seed=66), number, lambda: False)
    assert tally.differences == [] and tally.equal > tally.requests // 2


def sequential():
    """Return scenarios that were equal, spread over the corpus. Their outcome does not depend on arrival times."""
    stored = json.loads(file_of(BUILD).read_text("utf-8"))["scenarios"]
    found = [name for name, entry in sorted(stored.items()) if state_of(entry) == EQUAL and name in corpus_files()]
    alone = [name for name in found if "together" not in corpus_files()[name].read_text("utf-8")]
    return alone[:: len(alone) // SCENARIOS][:SCENARIOS]


@pytest.mark.parametrize("name", sequential())
def test_a_scenario_comes_out_as_simulated(name):
    compared = compare_case(load(corpus_files()[name]), wheel_server(WHEEL))
    assert compared.same is True, compared.left_out
