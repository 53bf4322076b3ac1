"""Cost of evaluating tokens: work units counted by hand."""

import pytest

from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.model import Model, parse


def model(layers, exact=True):
    return Model(parse(layers), exact, seed=1)


@pytest.mark.parametrize(("tokens", "n_ubatch", "passes"), [(8, 4, 2), (9, 4, 3), (1, 4, 1), (0, 4, 0), (4, 4, 1)])
def test_without_arithmetic_only_tokens_and_micro_batches_cost(tokens, n_ubatch, passes):
    assert cost_of(None, tokens, n_ubatch, 5000) == (tokens, passes, 0)
    assert cost_of(model("AA", exact=False), tokens, n_ubatch, 5000) == (tokens, passes, 0)


@pytest.mark.parametrize(("layers", "before", "work"), [
    ("A", 0, 29), ("A", 299, 29), ("A", 300, 30), ("AA", 299, 2 * 29 + 1), ("G", 9000, 29), ("GA", 600, 2 * 29 + 2),
    ("W50 A", 900, 2 * 29 + (450 + 900) // 300), ("W50 W50", 300, 2 * 29 + 2), ("H", 300, 30),
])  # fmt: skip
def test_every_layer_costs_tokens_micro_batches_and_the_rows_that_it_reads(layers, before, work):
    assert cost_of(model(layers), 9, 5, before) == (9, 2, work)
