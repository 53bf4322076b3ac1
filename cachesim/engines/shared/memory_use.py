"""Memory that a server takes for the caches of a real model, computed from its flags before it starts.

Weights and compute buffers are not counted. Each engine has a ``MemoryForms``, which the contract names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.size_formulas import LayerSize

MIB = 1 << 20
BLOCKS: Mapping[str, tuple[int, int]] = {
    "f32": (1, 4), "f16": (1, 2), "bf16": (1, 2), "q8_0": (32, 34), "q4_0": (32, 18), "q4_1": (32, 20),
    "iq4_nl": (32, 18), "q5_0": (32, 22), "q5_1": (32, 24),
}  # fmt: skip
"""Type of K/V rows -> numbers and bytes of a block."""


class MemoryPart(NamedTuple):
    """A part of the memory: ``number`` objects of ``each`` bytes."""

    name: str               # noun phrase
    each: int               # [bytes]
    number: int
    unit: str               # the objects, in the plural
    host: bool = False      # in the host's memory, wherever the model runs

    @property
    def bytes(self) -> int:
        """Bytes of all objects."""
        return self.each * self.number


class MemoryUse(NamedTuple):
    """Memory of a server at its fullest."""

    token: int                          # bytes of a token's rows in layers that keep all tokens
    window: int                         # bytes of a token's rows in window layers
    state: int                          # bytes of the states of a conversation
    checkpoint: int                     # bytes of the largest checkpoint, 0 = the server makes none for this model
    parts: tuple[MemoryPart, ...]
    pool: Mapping[str, int] = {}        # numbers of objects that the given memory holds
    takes_all: bool = False             # the server fills the given memory with them
    unlimited: str = ""                 # option that leaves a part without limit, "" = all have one
    chosen: Mapping[str, int] = {}      # values of options that were left to the server
    notes: tuple[str, ...] = ()         # sentences about options that change answers of this model

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return sum(part.bytes for part in self.parts)


class MemoryQuestion(NamedTuple):
    """A question: the model, all options of the server by name, and its rules. ``room``: memory for the caches [bytes],
    0 = not given; ``tokens``: length of a conversation where no option limits it; ``draft``: the draft model."""

    model: RealModel
    options: Mapping[str, Any]
    rules: RuleSet
    room: int = 0
    tokens: int = 0
    draft: RealModel | None = None


@dataclass(frozen=True)
class MemoryForms:
    """Sizes of an engine. ``flags``: options that change nothing but sizes. ``lower``: option -> smaller values to try,
    smallest last: words, or the step and the least of a number; those come first that cost the user least.
    ``agents``: settings for agents, None = unknown; ``kinds``: kinds of layers with known sizes that are not
    simulated."""

    use: Callable[[MemoryQuestion], MemoryUse]
    flags: tuple[Flag, ...] = ()
    lower: Mapping[str, tuple[Option, ...]] = field(default_factory=dict)
    agents: AgentForms | None = None
    kinds: str = ""


class AgentForms(NamedTuple):
    """How to start a server for agents. ``program``: words of a command line before the model; ``settings``: options
    that matter, given the memory (``MemoryQuestion.room``), the longest request (``MemoryQuestion.tokens``) and the
    number of clients; ``width``: option with the number of requests that run at a time, "" = as many as there are
    clients; ``smaller``: options with which rows take less memory and are less precise; ``unit``: most tokens that can
    run as one, 0 = any number; ``filled``: options whose value is as large as fits; ``stated``: options from which
    these follow."""

    program: tuple[str, ...]
    settings: Callable[[MemoryQuestion, int], Iterator[dict[str, Option]]]
    width: str = ""
    smaller: Mapping[str, Option] = {}
    unit: int = 0
    filled: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()


def row_bytes(layer: LayerSize, key: str, value: str) -> int:
    """Return the bytes of a K row and a V row of these types. Raise BadInput if a row is not a multiple of a block."""
    return _packed(layer.key, key) + _packed(layer.value, value)


def _packed(numbers: int, kind: str) -> int:
    block, size = BLOCKS[kind]
    if numbers % block:
        raise BadInput(f"a row of {numbers} numbers cannot be stored as {kind}", hint=f"not a multiple of {block}")
    return numbers // block * size


def context_of(ask: MemoryQuestion) -> int:
    """Return the context that was asked for, else that of the model [tokens]. Raise BadInput if both are unknown."""
    found = ask.options.get("ctx_size") or ask.tokens or ask.model.context
    if not found:
        raise BadInput("unknown context: the model does not state it", hint="-c N or --tokens N")
    return int(found)
