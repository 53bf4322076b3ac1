"""A repaired rule set has no fault that any conversation shows, and the search finds faults of the rule sets without
the repairs.

The conversations, the models and the options of the servers are those of ``cachesim.strategies``: a failure shrinks to
a line of notation, and prints the command that runs it again.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.strategies import workloads
from cachesim.tools.search.drawn_conversation import draw_conversation
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.run_properties import findings

REPAIRED = {engine.name: next(name for name in engine.profiles if name.endswith("-repaired"))
            for engine in ENGINES.values()}  # fmt: skip
CHECKED = (*PROPERTIES, "balances")
BROKEN = {"ik_llama": ("answered", "stored-equals-cold"), "mlx_lm": ("limits",)}
"""Properties that are not repaired: a request for a slot that does not exist waits for ever, rows that a context shift
moved are stored, and a row more than allowed is decoded."""
IMAGES = {"llama_cpp": "mmproj=causal", "vllm": "multimodal=true"}
"""Option with which a server takes images."""
EXAMPLES = pytest.mark.parametrize("examples", [4, pytest.param(25, marks=pytest.mark.long)])
DEFECTS = [
    ("llama_cpp@b11549", "stored-equals-cold"), ("ik_llama@main", "warm-equals-cold"),
    ("mlx_lm@0.32.2", "warm-equals-cold"), ("mlx_lm@0.32.2", "survives"), ("vllm@0.33.0", "stored-equals-cold"),
]
"""Rule set with known faults, and the property that they break."""
SEEDS = 400            # of conversations, one of which shows each of them


@EXAMPLES
@pytest.mark.parametrize("engine", REPAIRED)
def test_a_repaired_server_has_every_property(engine, examples):
    @settings(max_examples=examples)
    @given(workloads(engine, rules=ENGINES[engine].rules(REPAIRED[engine])))
    def holds(case):
        assume(not case.server.options.get("cache_reuse"))          # moved chunks are rounded twice, by design
        with suppress(BadInput):        # erasing a slot that does not exist is refused
            case.check(*(name for name in CHECKED if name not in BROKEN.get(engine, ())))

    holds()


@EXAMPLES
@pytest.mark.parametrize("engine", IMAGES)
def test_so_has_a_server_that_takes_images(engine, examples):
    @settings(max_examples=examples)
    @given(st.integers(0, 2**32))
    def holds(seed):
        conversation = draw_conversation(seed, engine, (IMAGES[engine],))
        with suppress(BadInput):        # an image is too large for the drawn server
            assert findings(conversation, REPAIRED[engine], tuple(PROPERTIES), {}) == []

    holds()


@pytest.mark.long
@pytest.mark.parametrize("profile, broken", DEFECTS)
def test_a_known_fault_is_found(profile, broken):
    def shows_it(seed):
        with suppress(BadInput):        # the drawn server is not supported
            return bool(findings(draw_conversation(seed, profile.partition("@")[0]), profile, (broken,), {}))
        return False

    assert any(map(shows_it, range(SEEDS)))
