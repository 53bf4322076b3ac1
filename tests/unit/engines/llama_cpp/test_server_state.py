"""The server's contexts: which model each of them has."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model import TokenRun, make_model
from tests.unit.engines.llama_cpp.talk import Talk, word
from tests.unit.model.plain_store import PlainStore


@pytest.mark.parametrize("mode", ["provenance", "exact"])
def test_a_draft_model_has_rows_of_its_own_weights(mode):
    """Its seed is two after that of the target; one after it is that of an MTP head."""
    talk = Talk("A", "b11549", mode, spec_type="draft-simple", model_draft="AA")
    talk.ask(word("a", 20))
    target, draft = talk.server.core.context.model, talk.server.core.dft.memory.parts["base"]
    store = PlainStore()
    store.begin(runs := [TokenRun(0, 0, word("a", 20))])
    make_model("AA", mode == "exact", target.seed + 2).forward(runs, store)
    assert np.array_equal(draft.rows[draft.stream(0)][0].digest[:20], store.rows_of(0, 0).digest)
