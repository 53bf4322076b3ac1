"""The cold run: what it holds, and that nothing is shared between two of them."""

import ast
import random
from pathlib import Path

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.model import make_model, same_state
from cachesim.oracle import cold_run
from cachesim.oracle.cold_run import cold
from tests.unit.model.plain_store import PlainStore, prefill, same_rows

TOKENS = random.Random(3).sample(range(5000), 50)
ALL_KINDS = "A W8 G S C H"


@pytest.mark.parametrize("exact", [True, False])
def test_states_and_rows_at_every_length(exact: bool) -> None:
    model = make_model(ALL_KINDS, exact)
    found = cold(model, TOKENS, speak=[], marks=range(len(TOKENS) + 1))
    store = PlainStore()
    assert all(same_state(None, found.state_at(layer, 0)) for layer in (2, 3, 4, 5))
    for n, token in enumerate(TOKENS, start=1):
        prefill(model, store, 0, [token], 1, pos0=n - 1)
        assert all(same_state(store.states[0, layer], found.state_at(layer, n)) for layer in (2, 3, 4, 5))
    for layer in (0, 1, 5):
        assert same_rows(store.rows_of(layer, 0), found.rows(layer))
        assert (found.rows(layer).k is not None) == exact
        assert (found.row_digests[layer] == found.rows(layer).digest).all()


def test_numbers_of_states_only_at_marks() -> None:
    found = cold(make_model("GC", True), TOKENS, speak=[], marks=[10])
    assert found.state_at(0, 10).h is not None and found.state_at(0, 11).h is None
    assert found.state_at(1, 10).conv_x is not None
    with pytest.raises(Crash):
        found.state_at(0, 51)


def test_logits_where_asked() -> None:
    found = cold(make_model("GA", True), TOKENS, speak=[49, 3])
    assert list(found.logits) == [49, 3] and found.logits[3].shape == (64,)
    assert (found.logits[3] == cold(make_model("GA", True), TOKENS[:4], speak=[3]).logits[3]).all()
    assert cold(make_model("GA", False), TOKENS, speak=[49]).logits == {}
    assert found.hidden is not None and cold(make_model("GA", False), TOKENS, speak=[]).hidden is None


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_short_sequences(n: int, exact: bool) -> None:
    model = make_model(ALL_KINDS, exact)
    found = cold(model, TOKENS[:n], speak=range(n), marks=[n])
    assert len(found.digests) == n and len(found.logits) == (n if exact else 0)
    assert (found.digests == cold(model, TOKENS, speak=[]).digests[:n]).all()


@pytest.mark.parametrize("n", [255, 256, 257, 600])
def test_blocks_of_the_whole_do_not_matter(n: int) -> None:
    """A prefix is computed as the whole is: the oracle's own blocks leave no trace."""
    tokens = [(i * 37 + i * i) % 501 for i in range(700)]
    model = make_model("G W40 S A", True)
    whole, part = cold(model, tokens, speak=[]), cold(model, tokens[:n], speak=[])
    assert whole.hidden is not None and part.hidden is not None
    assert np.array_equal(whole.hidden[:n], part.hidden)


def test_shares_no_code_with_the_cached_path() -> None:
    folder = Path(cold_run.__file__).parent
    step_form = {"attention", "recurrent", "digests", "single", "view"}
    paths = sorted(folder.glob("*.py"))
    assert len(paths) == 5
    for path in paths:
        imported = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module
            for name in (node.module.split(".")[-1], *(alias.name for alias in node.names))
        }
        assert not imported & step_form, path.name
