"""Tests that the classes are independent of the content of rows: equal random operations with numbers and with
structured rows."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import AT_0_32_2, AT_D78BF58E, AT_M1072, AT_PR999
from tests.peers.actions import Table
from tests.peers.talk import Dice, Talk, setting
from tests.peers.transcript import STEP
from tests.peers.worlds import Ours
from tests.unit.engines.mlx_lm.rows import ROW

EPISODES = 12


class Numbers(Table):
    """Rows as numbers above 0."""

    def rows(self, start, batch, new, width):
        return super().rows(start, batch, new, 1).astype("f8") + 2000


class Structured(Table):
    """Rows with provenance: the number is the digest."""

    def rows(self, start, batch, new, width):
        out = np.zeros((batch, self.heads, new, 1), ROW)
        out["digest"] = super().rows(start, batch, new, 1) + 2000
        return out


def arrays(thing):
    """Return every array of a cache in a fixed order, with digests in place of structured rows."""
    if isinstance(thing, np.ndarray):
        return [(thing["digest"] if thing.dtype.names else thing).tolist()]
    if isinstance(thing, list | tuple):
        return [found for one in thing for found in arrays(one)]
    return arrays(list(vars(thing).values())) if hasattr(thing, "rules") else []


@pytest.fixture(autouse=True)
def blocks_as_they_were():
    yield
    Ours(AT_D78BF58E).steps(STEP)


def tried(table, action):
    try:
        getattr(table, "do_" + action[0])(*action[1:])
    except Exception as error:                   # whatever the classes raise, both raise
        return type(error)
    return None


@pytest.mark.long
@pytest.mark.parametrize("rules", [AT_D78BF58E, AT_0_32_2, AT_M1072, AT_PR999])
def test_structured_rows_go_where_numbers_go(rules):
    ours, done = Ours(rules), 0
    for episode in range(EPISODES):
        dice = Dice(f"dtypes {episode}")
        scene = setting(dice)
        if scene.family.kind == "QuantizedKVCache":
            continue
        ours.steps(scene.step)
        tables = [kind(ours, "f4", scene.shape) for kind in (Numbers, Structured)]
        for action in Talk(dice, scene, tables[0].things).actions():
            if action[0] in ("pack", "quantize"):
                break
            results = [tried(table, action) for table in tables]
            assert results[0] is results[1], action
            if results[0]:
                break
            numbers, rows = ([arrays(thing) for thing in table.things.values()] for table in tables)
            assert numbers == rows, action
            done += 1
    assert done > 200
