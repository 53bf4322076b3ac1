"""Options and conversations with adapters for ``--kit llama_cpp-adapters``: those of ``worlds``, with adapters of the
server, lists of requests, and the tokens that invoke an aLoRA somewhere in the prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from cachesim.engines.capabilities import DrawnServer
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation.tree import LineRequest, Piece, map_step_texts
from cachesim.scenarios.request_spec import Words, make_steps
from cachesim.tools.search.drawn_conversation import DrawnConversation
from tests.live import worlds

INVOKE = {"INVOKE": (101, 102, 103), "CALL": (110,), "SUMMON": (111, 112, 111, 113)}
"""Words that invoke an aLoRA, and their tokens in the vocabulary of the recorded models."""
PLAIN = ("0,0", "0,0,0", "1,0", "0.5,0", "1,1")
MIXED = ("0@INVOKE", "0@INVOKE,0", "0,1@INVOKE", "0@INVOKE,0@CALL", "0@SUMMON,0,0@INVOKE", "1@CALL")


class AdapterSet(NamedTuple):
    """A server start with adapters; see ``worlds.OptionSet``."""

    number: int
    seed: int
    world: DrawnServer
    model: str
    server: dict

    def case(self, conversation):
        """Return a conversation with this server."""
        drawn = worlds.OptionSet(*self).case(conversation)
        used = [word for word, tokens in INVOKE.items() if f"@{_dotted(tokens)}" in self.server["lora_scaled"]]
        if used:
            drawn = _invoked(Rng(drawn.seed, "invocations"), drawn, used)
        return AdapterConversation(**{name: getattr(drawn, name) for name in drawn.__slots__})


@dataclass(frozen=True, slots=True)
class AdapterConversation(DrawnConversation):
    """A conversation whose invoking words have tokens of the real vocabulary."""

    def scenario(self, profile):
        """Return the scenario of the conversation for a profile."""
        known, words = DrawnConversation.scenario(self, profile), Words()
        words.update(known.words)
        words.spelled = {word: INVOKE[word][:n] for word, n in words.items() if word in INVOKE}
        return replace(known, words=words, steps=make_steps(self.asked, words, self.server))


def option_set(seed, number):
    """Return the option set of two integers."""
    drawn, rng = worlds.option_set(seed, number), Rng(seed * worlds.SPREAD + number, "adapters")
    adapters = rng.one(PLAIN) if rng.chance(50) else rng.one(MIXED)
    for word, tokens in INVOKE.items():
        adapters = adapters.replace(f"@{word}", f"@{_dotted(tokens)}")
    server = {**drawn.server, "lora_scaled": adapters}
    if rng.chance(10):
        server["lora_init_without_apply"] = True
    return AdapterSet(number, seed, drawn.world._replace(server=server), drawn.model, server)


def _dotted(tokens):
    return ".".join(map(str, tokens))


def _invoked(rng, drawn, used):
    """Return the conversation with invoking words before and after some of its words, sometimes without their end."""
    answers = {piece.word for step in drawn.asked if isinstance(step, LineRequest) for piece in step.answer or ()}
    around = {word: _drawn_places(rng, used, word in answers) for word in drawn.words}
    lengths = {word: len(INVOKE[word]) for word in used}

    def with_places(pieces):
        out = []
        for piece in pieces:
            before, after = around[piece.word]
            out += [*(before if not piece.start else ()), piece, *(after if piece.stop is None else ())]
        return tuple(out)

    def in_prompts(step):
        if not isinstance(step, LineRequest):
            return step
        return map_step_texts(step, with_places)._replace(answer=step.answer, answers=step.answers)

    return replace(drawn, words={**drawn.words, **lengths}, asked=tuple(map(in_prompts, drawn.asked)))


def _drawn_places(rng, used, answered):
    """Draw the pieces before and after a word. The words of an answer stay behind their prompt."""
    chances = (0, 20) if answered else (30, 10)
    return tuple((_drawn_piece(rng, rng.one(used)),) if rng.chance(percent) else () for percent in chances)


def _drawn_piece(rng, word):
    n = len(INVOKE[word])
    return Piece(word, None, rng.between(1, n - 1)) if n > 1 and rng.chance(15) else Piece(word)
