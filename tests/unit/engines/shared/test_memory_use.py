"""Memory of a server: bytes of rows by their type, the context that counts, and sums of parts."""



import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.memory_use import (
    AgentForms,
    MemoryForms,
    MemoryPart,
    MemoryQuestion,
    MemoryUse,
    context_of,
    row_bytes,
)
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.size_formulas import attention

LAYER = attention(2, 32, 64)            # a K row of 64 numbers, a V row of 128


@pytest.mark.parametrize(("key", "value", "expected"), [
    ("f32", "f32", 4 * 192), ("f16", "f16", 2 * 192), ("bf16", "f16", 2 * 192), ("q8_0", "q8_0", 6 * 34),
    ("q4_0", "q4_0", 6 * 18), ("q4_1", "q4_1", 6 * 20), ("iq4_nl", "iq4_nl", 6 * 18), ("q5_0", "q5_0", 6 * 22),
    ("q5_1", "q5_1", 6 * 24), ("q8_0", "f16", 2 * 34 + 256), ("f16", "q8_0", 128 + 4 * 34),
])  # fmt: skip
def test_rows_take_the_blocks_of_their_types(key, value, expected):
    assert row_bytes(LAYER, key, value) == expected


@pytest.mark.parametrize(("layer", "key", "value", "numbers", "kind"), [
    (attention(1, 40, 32), "q8_0", "f16", 40, "q8_0"), (attention(1, 32, 33), "f16", "q4_0", 33, "q4_0"),
    (attention(1, 1, 1), "q5_0", "q5_1", 1, "q5_0"),
])  # fmt: skip
def test_a_row_is_a_multiple_of_its_blocks(layer, key, value, numbers, kind):
    with pytest.raises(BadInput) as bad:
        row_bytes(layer, key, value)
    assert str(bad.value).startswith(f"a row of {numbers} numbers cannot be stored as {kind}")
    assert bad.value.hint == "not a multiple of 32"


@pytest.mark.parametrize(("option", "tokens", "model", "context"), [
    (512, 100, 4096, 512), (0, 100, 4096, 100), (None, 0, 4096, 4096), ("256", 0, 0, 256), (0, 7, 0, 7),
])  # fmt: skip
def test_a_context_is_that_of_the_option_of_the_conversation_or_of_the_model(option, tokens, model, context):
    ask = MemoryQuestion(RealModel((), "", context=model), {"ctx_size": option}, None, tokens=tokens)
    assert context_of(ask) == context


def test_a_model_without_a_context_needs_an_option():
    with pytest.raises(BadInput, match="context"):
        context_of(MemoryQuestion(RealModel((), ""), {"ctx_size": 0}, None))


def test_parts_add_up():
    parts = MemoryPart("rows", 10, 3, "cells"), MemoryPart("states", 7, 2, "slots", True)
    assert [(part.bytes, part.host) for part in parts] == [(30, False), (14, True)]
    assert MemoryUse(1, 2, 3, 4, parts).total == 44 and MemoryUse(0, 0, 0, 0, ()).total == 0


def test_nothing_is_claimed_that_an_engine_does_not_say():
    use = MemoryUse(0, 0, 0, 0, ())
    assert (use.pool, use.takes_all, use.unlimited, use.chosen, use.notes) == ({}, False, "", {}, ())
    ask = MemoryQuestion(None, {}, None)
    assert (ask.room, ask.tokens, ask.draft) == (0, 0, None)
    forms, agents = MemoryForms(lambda ask: use), AgentForms(("serve",), lambda ask, clients: iter(()))
    assert (forms.flags, forms.lower, forms.agents) == ((), {}, None)
    assert (agents.width, agents.smaller, agents.unit, agents.filled) == ("", {}, 0, ())
