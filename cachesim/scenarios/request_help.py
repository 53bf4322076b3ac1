"""What may a request say beside its words, how is that written in a line, and what does it mean?"""

from __future__ import annotations

from typing import Mapping, NamedTuple

from cachesim.engines.manual import Manual


class Help(NamedTuple):
    """A field of a request: an example in a line, and what it means."""

    example: str
    help: str


EVERY: Mapping[str, Help] = {
    "answer": Help("A5>r4", "the model's answer: these words"),
    "n_predict": Help("A5>3", "tokens to generate, chosen by the sampler (default 1; -1 = until the context is full)"),
    "together": Help("B5{together+1}", "sent while the request before is at work, so many rounds later"),
}
"""What every engine takes."""

FIELDS: Mapping[str, Help] = {
    "messages": Help("s:S40+u:A5", "a chat of a system and a user message (a assistant, t tool)"),
    "user_starts": Help("S40.|A5", "a user message starts here"),
    "cache_prompt": Help("A5!", "cache_prompt = false: nothing of the slot is reused"),
    "id_slot": Help("A5@1", "asks for slot 1"),
    "n_keep": Help("{n_keep=4}", "tokens at the start that a context shift keeps; -1 = the whole prompt"),
    "n_discard": Help("{n_discard=8}", "tokens that a context shift drops; 0 = half of those behind n_keep"),
    "n_cache_reuse": Help("{n_cache_reuse=4}", "fewest tokens of a block that is reused by shifting its positions"),
    "cancel_at": Help("{cancel_after=2}", "the client disconnects after so many generated tokens; 0 = in the prompt"),
    "drafts": Help("{drafts=3:1,2:0}", "tokens drafted and how many of them are accepted, iteration by iteration"),
    "draft_else": Help("{draft_else=3}", "afterwards so many are drafted, all of them right"),
    "seed": Help("{seed=True}", "the request has a seed of its own, so that it is not batched"),
}
"""Field of a ``Request`` that only some engines look at -> how it is written. Fields that only recordings have are not
here."""

COMPLETIONS: Mapping[str, Help] = {
    "task": Help("{task=embedding}", "completion, infill, embedding or rerank"),
    "n_cmpl": Help("{n_cmpl=2}", "several completions of the prompt"),
    "answers": Help("{answers=s4/t4}", "what the further completions say"),
}
"""What only engines take that give several completions of a prompt."""

SLOTS: Mapping[str, Help] = {
    "save": Help("{save@0 f}", "saves slot 0 to the file f"),
    "restore": Help("{restore@0 f}", "restores it"),
    "erase": Help("{erase@0}", "erases slot 0"),
    "restart": Help("{restart np=2}", "starts the server anew, with another option or without"),
}
"""Steps that are no requests, of engines with slots."""


def fields_of(manual: Manual) -> dict[str, Help]:
    """What a request to this engine may say, and its other steps, in the order in which they are listed."""
    found = {**EVERY, **{name: said for name, said in FIELDS.items() if name in manual.takes}}
    own = {one.name: Help(f"{{{one.name}={one.drawn[0] if one.drawn else one.default}}}", one.help)
           for one in manual.fields}  # fmt: skip
    return {**found, **own, **(COMPLETIONS if manual.completions else {}), **(SLOTS if manual.slots else {})}
