"""Window and compressed rows over a whole sequence: which rows a token reads, and what a row is made from."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model import grid, make_model
from cachesim.model.compressed_rows import index_queries
from cachesim.model.rope import turns
from cachesim.model.spec import Layer
from cachesim.oracle import whole_compressed
from cachesim.oracle.whole_compressed import compressed_attention, compressed_digests


def rows_read(monkeypatch, spec, layer, n):
    """Return the rows that each of ``n`` tokens reads, for both groups of heads: compressed rows, then plain ones."""
    monkeypatch.setattr(whole_compressed, "read_chosen", lambda q, k, v, choice: [choice(i) for i in range(len(q))])
    model = make_model(spec, True)
    u = np.rint(np.random.default_rng(1).normal(size=(n, 32)) / 4 / grid.UNIT)
    found = compressed_attention(u, model.weights.layers[0].attention, turns(np.arange(n)), layer)
    chosen = found[0]
    assert all(len(rows) == 2 and rows[0] == rows[1] for rows in chosen)
    return [rows[0] for rows in chosen]


def test_a_token_reads_its_window_and_the_rows_of_complete_blocks(monkeypatch):
    """7 tokens are 2 compressed rows of 3 tokens: 0 and 1; the plain rows are 2 to 8."""
    assert rows_read(monkeypatch, "D3.2", Layer("D", 2, 0, 3), 7) == [
        [2], [2, 3], [0, 3, 4], [0, 4, 5], [0, 5, 6], [0, 1, 6, 7], [0, 1, 7, 8]]  # fmt: skip


def test_of_more_rows_than_it_may_choose_a_token_reads_the_best(monkeypatch):
    found = rows_read(monkeypatch, "D4.1.1", Layer("D", 1, 1, 4), 12)
    assert found[:4] == [[3], [4], [5], [0, 6]] and found[4:7] == [[0, 7], [0, 8], [0, 9]]
    assert [len(rows) for rows in found[7:]] == [2] * 5
    assert all(rows[0] in range((i + 1) // 4) and rows[1] == 3 + i for i, rows in enumerate(found) if i > 6)


@pytest.mark.parametrize(("ratio", "reach"), [(2, 2), (3, 3), (4, 8), (5, 5)])
def test_a_row_depends_on_the_tokens_of_its_block_and_with_the_ratio_4_of_the_one_before(ratio, reach):
    layer = Layer("D", 2, 0, ratio)
    inputs = np.arange(1, 6 * ratio, dtype=np.uint64)
    key = np.uint64(77)
    first = compressed_digests(inputs, inputs, layer, key)
    assert (len(first.second), len(first.read)) == (5, 6 * ratio - 1)
    for place in range(len(inputs)):
        other = inputs.copy()
        other[place] += np.uint64(1000)
        changed = compressed_digests(other, other, layer, key)
        differing = [j for j in range(5) if changed.second[j] != first.second[j]]
        assert differing == [j for j in range(5) if (j + 1) * ratio - reach <= place < (j + 1) * ratio]
    assert first.read[: ratio - 1].tolist() == [0] * (ratio - 1) and first.read[ratio - 1] == first.second[0]
    assert first.read[-1] == np.add.reduce(first.second)


def test_equal_blocks_are_different_rows():
    found = compressed_digests(np.zeros(6, np.uint64), np.zeros(6, np.uint64), Layer("D", 2, 0, 2), np.uint64(5))
    assert len(set(found.second.tolist())) == 3
    other = compressed_digests(np.zeros(6, np.uint64), np.zeros(6, np.uint64), Layer("D", 2, 0, 2), np.uint64(6))
    assert not set(found.second.tolist()) & set(other.second.tolist())


def test_a_row_is_the_mean_of_its_block_and_with_the_ratio_4_a_quarter_of_the_one_before():
    """3 of 4 parts of such a row are from its own block; a mean is rounded to a whole number of units."""
    inputs = np.repeat(np.arange(1.0, 10.0)[:, None] ** 3, 80, axis=1)
    found = whole_compressed._rows(inputs, 4)
    blocks = [1 + 8 + 27 + 64, 125 + 216 + 343 + 512]
    means = [np.rint(3 * blocks[0] / 16), np.rint((3 * blocks[1] + blocks[0]) / 16)]
    assert found.k.shape == (2, 3, 16) and found.v.tolist() == [[[mean] * 16] * 2 for mean in means]
    plain = whole_compressed._rows(inputs, 3)
    assert plain.v[:, 0, 0].tolist() == [np.rint(n / 3) for n in (1 + 8 + 27, 64 + 125 + 216, 343 + 512 + 729)]
    assert whole_compressed._rows(inputs[:3], 4).v.shape == (0, 2, 16)


def test_index_queries_are_those_of_the_model(monkeypatch):
    asked = []
    real = whole_compressed.scores_of

    def scores(queries, keys):
        asked.append(queries)
        return real(queries, keys)

    monkeypatch.setattr(whole_compressed, "scores_of", scores)
    weights = make_model("D4.1.1", True).weights.layers[0].attention
    u, turn = np.rint(np.random.default_rng(1).normal(size=(6, 32)) / 4 / grid.UNIT), turns(np.arange(6))
    compressed_attention(u, weights, turn, Layer("D", 1, 1, 4))
    expected = index_queries(u, weights, turn)
    assert [one.tolist() for one in asked] == [expected[i].reshape(asked[0].shape).tolist() for i in range(6)]
