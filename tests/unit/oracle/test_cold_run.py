"""Tests of the cold run: its contents, and independence of two runs."""

import ast
import random
from pathlib import Path

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.model import make_model, same_state
from cachesim.model.layer_kinds import KINDS
from cachesim.oracle import cold_run
from cachesim.oracle.cold_run import cold
from tests.unit.model.plain_store import ALL_KINDS, PlainStore, keeps_a_state, prefill, same_rows

TOKENS = random.Random(3).sample(range(5000), 50)


@pytest.mark.parametrize("exact", [True, False])
def test_states_and_rows_at_every_length(exact: bool) -> None:
    model = make_model(ALL_KINDS, exact)
    found = cold(model, TOKENS, logits_at=[], marks=range(len(TOKENS) + 1))
    store = PlainStore()
    states = [index for index, layer in enumerate(model.spec.layers) if keeps_a_state(layer)]
    assert all(same_state(None, found.state_at(layer, 0)) for layer in states)
    assert all((found.state_at(layer, 0).h is not None) == exact for layer in states)
    for n, token in enumerate(TOKENS, start=1):
        prefill(model, store, 0, [token], 1, pos0=n - 1)
        assert all(same_state(store.states[0, layer], found.state_at(layer, n)) for layer in states)
    for layer in (index for index, layer in enumerate(model.spec.layers) if layer.part):
        assert same_rows(store.rows_of(layer, 0), found.rows(layer))
        assert (found.rows(layer).k is not None) == exact


def test_numbers_of_states_only_at_marks() -> None:
    found = cold(make_model("GC", True), TOKENS, logits_at=[], marks=[10])
    assert found.state_at(0, 10).h is not None and found.state_at(0, 11).h is None
    assert found.state_at(1, 10).conv_x is not None
    with pytest.raises(Crash):
        found.state_at(0, 51)


def test_logits_where_asked() -> None:
    found = cold(make_model("GA", True), TOKENS, logits_at=[49, 3])
    assert list(found.logits) == [49, 3] and found.logits[3].shape == (64,)
    assert (found.logits[3] == cold(make_model("GA", True), TOKENS[:4], logits_at=[3]).logits[3]).all()
    assert cold(make_model("GA", False), TOKENS, logits_at=[49]).logits == {}
    assert found.hidden is not None and cold(make_model("GA", False), TOKENS, logits_at=[]).hidden is None


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_short_sequences(n: int, exact: bool) -> None:
    model = make_model(ALL_KINDS, exact)
    found = cold(model, TOKENS[:n], logits_at=range(n), marks=[n])
    assert len(found.digests) == n and len(found.logits) == (n if exact else 0)
    assert (found.digests == cold(model, TOKENS, logits_at=[]).digests[:n]).all()


@pytest.mark.parametrize("n", [255, 256, 257, 600])
def test_blocks_of_the_whole_do_not_matter(n: int) -> None:
    """A prefix gives the values of the whole: the oracle's own blocks have no effect."""
    tokens = [(i * 37 + i * i) % 501 for i in range(700)]
    model = make_model("G W40 S A", True)
    whole, part = cold(model, tokens, logits_at=[]), cold(model, tokens[:n], logits_at=[])
    assert whole.hidden is not None and part.hidden is not None
    assert np.array_equal(whole.hidden[:n], part.hidden)


def test_shares_no_code_with_the_cached_path() -> None:
    """No step form is imported, and only the classes of weights from a module that contains a step form. Whole forms
    use no store."""
    forms = [part for kind in KINDS.values() for part in (*(kind.attention or ()), *(kind.recurrence or ()))]
    step_form = {form.__module__ for form in forms if callable(form)} - {"cachesim.model.weights"}
    step_form |= {"cachesim.model.provenance", "cachesim.model.layer_kinds"}
    assert {"cachesim.model.attention", "cachesim.model.recurrent"} <= step_form
    paths = sorted(Path(cold_run.__file__).parent.glob("*.py"))
    assert len(paths) >= 5
    for path in paths:
        cached = {f"cachesim.model.{name}" for name in ("forward", "attention_mask") if path.stem.startswith("whole_")}
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, ast.Import) or node.names[0].name == "numpy", path.name
            for name in (alias.name for alias in node.names) if isinstance(node, ast.ImportFrom) else ():
                assert f"{node.module}.{name}" not in step_form | cached, path.name
                assert node.module not in step_form | cached or name.endswith("Weights"), path.name


@pytest.mark.parametrize("exact", [True, False])
def test_a_state_is_that_after_every_length_with_equal_inputs(exact: bool) -> None:
    """Compared with all states, one by one. Tokens that repeat give a short convolution the same inputs again."""
    model = make_model(ALL_KINDS, exact)
    tokens = [*TOKENS[:9], *TOKENS[:9], *TOKENS[:3]]
    found = cold(model, tokens, logits_at=[])
    for layer in (index for index, layer in enumerate(model.spec.layers) if keeps_a_state(layer)):
        states = [found.state_at(layer, n) for n in range(len(tokens) + 1)]
        for n, state in enumerate(states):
            same = [m for m, one in enumerate(states) if same_state(one, state)]
            assert found.lengths_with(layer, state) == same and n in same
        assert found.lengths_with(layer, None) == [0]


@pytest.mark.parametrize("kind", ["C", "S", "G"])
def test_lengths_with_the_last_input_alone_have_another_state(kind: str) -> None:
    """The first layer's inputs depend on the tokens alone: a short convolution keeps several of them."""
    tokens = [1, 2, 3, 2, 1, 1, 2, 3, 2]
    found = cold(make_model(kind, False), tokens, logits_at=[])
    states = [found.state_at(0, n) for n in range(len(tokens) + 1)]
    same = [[m for m, other in enumerate(states) if same_state(other, state)] for state in states]
    assert [found.lengths_with(0, state) for state in states] == same
    assert (max(map(len, same)) > 1) == (kind == "C")
