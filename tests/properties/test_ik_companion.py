"""#1889 without injection: the companion never refuses a cut that the target accepts, in any conversation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.properties.companion import MODELS, Tally, conversation, run

pytestmark = pytest.mark.long
BASE, PR = "ik_llama@1889-base", "ik_llama@pr1889"


def told(seed: int, n: int, profile: str, model: str, least: int = 1) -> tuple[Tally, list[list[object]]]:
    """Run n conversations, identical for every profile."""
    tally, logs = Tally(), []
    for number in range(n):
        rng = np.random.default_rng((seed, number))
        logs.append(run(rng, profile, conversation(rng, 4, least), model, tally))
    return tally, logs


@pytest.mark.parametrize("model", MODELS)
def test_on_its_base_no_cut_is_ever_refused(model, capsys):
    tally, _ = told(1889, 250, BASE, model)
    assert (tally.refused, tally.conversations) == (0, 250)
    assert set(tally.ahead) <= {-1, 0}
    with capsys.disabled():
        print(f"\n{BASE} {model}: {tally}")


def test_rounds_without_a_draft_leave_it_behind_and_still_nothing_is_refused():
    tally, _ = told(1762, 100, BASE, "GGGA+M", least=0)
    assert tally.refused == 0
    assert min(tally.ahead) < -1 and max(tally.ahead) <= 0


@pytest.mark.parametrize("model", MODELS)
def test_the_pull_request_changes_no_event_of_any_conversation(model):
    (_, base), (_, pr) = told(1889, 60, BASE, model), told(1889, 60, PR, model)
    assert base == pr


def test_since_1992_the_companion_is_ahead_by_one_row_or_level():
    """The companion is behind by a row only after an answer of two tokens: the first comes from the prompt, the second
    gets no draft."""
    tally, _ = told(1992, 100, "ik_llama@main", "GGGA+M")
    assert tally.refused == 0
    assert set(tally.ahead) == {-1, 0, 1} and tally.ahead[-1] < tally.ahead[1] / 5
