"""What an import states about prompts in tokens is what their tokens share, and its scenario has the same prefixes."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.engines.registry import profiles
from cachesim.scenarios.load import load_text
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies

EXAMPLES = pytest.mark.parametrize("examples", [25, pytest.param(60, marks=pytest.mark.long)])
tokens = st.lists(st.integers(1, 9), min_size=1, max_size=30)


@st.composite
def histories(draw):
    """Draw prompts. Each changes an earlier one: at its end, from a place on, or in its middle."""
    found = [draw(tokens)]
    for _ in range(draw(st.integers(1, 6))):
        before = draw(st.sampled_from(found))
        start, stop = sorted(draw(st.integers(0, len(before))) for _ in "ab")
        kept = draw(st.sampled_from([before, before[:start], before[:start] + before[stop:]]))
        found.append(kept + draw(tokens) if draw(st.booleans()) else kept[: max(1, start)] or draw(tokens))
    return found


@EXAMPLES
def test_shared_tokens_are_counted_and_simulated(tmp_path, examples):
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(histories())
    def holds(prompts):
        file = tmp_path / "bodies.jsonl"
        file.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
        data, toml = import_bodies([file], ImportOptions())
        simulated = [step.request.prompt for step in load_text(toml, profiles().keys()).steps]
        for number, (row, prompt) in enumerate(zip(data["requests"], prompts, strict=True)):
            assert row["tokens"] == len(prompt) == len(simulated[number])
            if row["previous"] >= 0:
                assert row["shared"] == common_prefix(prompts[row["previous"]], prompt)
            for texts in (prompts, simulated):
                assert row["reusable"] == max((common_prefix(one, texts[number]) for one in texts[:number]), default=0)

    holds()
