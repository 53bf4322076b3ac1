"""Servers of drawn conversations, from the space of ``cachesim fuzz``, for models that llama.cpp can load."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import DrawnServer
from cachesim.engines.registry import ENGINES
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation.tree import Action, LineRequest
from cachesim.tools.live.llama_server.gguf_models import ANY_PERIOD
from cachesim.tools.live.llama_server.real.real_server import ENGINE
from cachesim.tools.search.drawn_conversation import DrawnConversation, draw_conversation_for, draw_server

ALSO: Mapping[str, tuple[str, ...]] = {
    "A": ("A", "AAAA"), "AA": ("AA",), "GA": ("GA", "qwen35-GA"), "GGGA": ("GGGA", "qwen35-GGGA"),
    "S": ("S",), "SS": ("SS", "SSA"), "W8 A": ("W8 A", "W32 A"), "W8 W8": ("W8 W8", "W8 A"), "CA": ("CA", "CCA"),
    "HH": ("H", "HH"), "G W8": ("C W8",), "C W8": ("C W8", "C W32"),
    "I8": ("I8",), "I8 I8": ("I8 I8",), "W8 I8": ("W8 I8",), "G P8": ("qwen35-G P8", "qwen35-GGG P8"),
    "W8 D4.8.3": ("W8 D4.8.3",),
}  # fmt: skip
"""Drawn layers -> models with such a memory that llama.cpp supports."""
BEFORE_PERIODS = {"W8 A": "W8 W8 W8 W8 W8 A", "W32 A": "W32 W32 W32 W32 W32 A"}
"""Model -> one with layers of the same kinds, which builds before ``ANY_PERIOD`` load."""
DRAFTERS, MTP = ("A", "A", "S"), ("GGGA+M", "GA+M")
SPREAD = 1 << 20               # conversation c of option set n of seed s is the integer (s * SPREAD + n) * SPREAD + c


class OptionSet(NamedTuple):
    """A server start. ``world``: for drawing conversations; ``model`` and ``server``: what is started."""

    number: int
    seed: int
    world: DrawnServer
    model: str
    server: dict[str, Any]

    def case(self, conversation: int) -> DrawnConversation:
        """Return a conversation with this server."""
        drawn = draw_conversation_for(self.world, (self.seed * SPREAD + self.number) * SPREAD + conversation)
        return replace(drawn, model=self.model, server=self.server, asked=tuple(map(_undrafted, drawn.asked)))

    def on_build(self, build: str) -> OptionSet:
        """Return the option set without the options that the server of a build does not have, and with a model that it
        loads."""
        absent = absent_options(build)
        server = {name: value for name, value in self.server.items() if name not in absent}
        number = re.fullmatch(r"b(\d+)", build)
        is_old = number is not None and int(number[1]) < ANY_PERIOD
        model = BEFORE_PERIODS.get(self.model, self.model) if is_old else self.model
        return self._replace(server=server, model=model)


def _undrafted(step: LineRequest | Action) -> LineRequest | Action:
    """Return a step without forced drafts: a real server drafts by itself."""
    return step._replace(drafts=(), draft_else=0) if isinstance(step, LineRequest) else step


def absent_options(build: str) -> frozenset[str]:
    """Return the options for which the server of a build has no argument, of no name."""
    engine = ENGINES[ENGINE]
    table = engine.command_table
    known = {*table.of_release(f"{ENGINE}@{build}")}
    known |= {newer for older, newer in table.renamed.items() if older in known}
    return frozenset(flag.name for flag in engine.manual.flags if flag.spellings and not known & {*flag.spellings})


def option_set(seed: int, number: int, narrowed: tuple[str, ...] = ()) -> OptionSet:
    """Return the option set of two integers. ``narrowed``: models to draw, and options ``key=value`` of every
    server. Raise BadInput if none of the models can be started."""
    rng = Rng(seed * SPREAD + number, "options")
    world = draw_server(rng, ENGINE, _startable(narrowed))
    model, server = rng.one(ALSO[world.model]), dict(world.server)
    if "parallel" not in server and rng.chance(8):
        server["parallel"] = -1                         # the usual default: four slots, unified
    if "spec_type" in server:
        model, server = _drafting(rng, model, server)
    return OptionSet(number, seed, world._replace(server=server), model, server)


def _startable(narrowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the models that a file is written for, and the options. Raise BadInput if no model is left."""
    models = [one for one in narrowed if "=" not in one]
    missing = [one for one in models if one not in ALSO]
    if models and missing == models:
        raise BadInput(f"--real: no model file is written for layers {', '.join(missing)}",
                       hint="run LINE --real BUILD --gguf FILE takes the file of a model")  # fmt: skip
    return tuple(one for one in narrowed if one not in missing)


def _drafting(rng: Rng, model: str, server: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Draw the drafter: n-grams, a draft model, or the model's own head."""
    kind = rng.one(("ngram-simple", "draft-simple", "draft-mtp"))
    server = {**server, "spec_type": kind}
    if kind == "draft-mtp":
        return rng.one(MTP), server
    if kind == "draft-simple":
        server["model_draft"] = rng.one(DRAFTERS)
    return model, server


def drawn_models() -> list[str]:
    """Return every model that is started, or drafts."""
    return sorted({*DRAFTERS, *MTP, *BEFORE_PERIODS.values(), *(one for several in ALSO.values() for one in several)})
