"""Which scenarios does a description mean? Those of its symptom, and of these first what it says besides: the kind of
model, the engine, reasoning, tools, drafts. Where it says no more, the causes that are reported most come first.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import AbstractSet, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.shared.known_models import MODELS, known_names
from cachesim.engines.shared.known_models import find as known
from cachesim.model.spec import parse
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.symptoms import ENOUGH, SYMPTOMS, is_of, meant_by, stems

COMMON = "COMMON.txt"        # "SYMPTOM: id id" in each line: what is reported most comes first
TITLE, TEXT = 2.0, 0.5       # what a word counts for that a scenario has in its title, or in its explanation only
FEWEST = 4                   # letters of a name that is the beginning of a longer one
FIRST = "re-processed"       # what most people mean who name a model and nothing else

_SAME = (
    "window swa sliding", "hybrid deltanet", "recurrent mamba ssm rwkv", "reasoning thinking think thought",
    "tool tools function", "date timestamp clock", "draft speculative speculation mtp eagle",
    "batch batched parallel concurrent concurrency simultaneous together ragged", "edited edit regenerate retry swipe",
    "agent agents subagent subagents client clients sibling siblings", "same identical", "file files saved save",
)  # fmt: skip
"""Words for one thing; the first one stands for the others."""
_VAGUE = frozenset(stems("""prompt cache conversation message turn user whole entire start back way run make other
    another first last next new old work data due lack kv output answer content token some something many most long
    wrong not non any more"""))
"""Words that most scenarios could have: they say nothing of which one is meant."""
_STANDS_FOR = {stem: stems(group)[0] for group in _SAME for stem in stems(group)}
_KINDS = ("window", "hybrid", "recurrent")


def matching(text: str, scenarios: Sequence[Scenario]) -> list[Scenario]:
    """The scenarios that a description means, best first. Where no symptom is meant, those whose titles have a model or
    another topic that it names; else those whose title and text have most of its words."""
    asked = _topics(text)
    words = [word for word in asked if word not in _ABOUT or any(is_of(word, name) for name in SYMPTOMS)]
    names = [text] if text in SYMPTOMS else meant_by(words)
    if not names and not asked & _ABOUT:
        return _with_most(set(stems(text)), scenarios)
    told = {word for word in asked if word in _ABOUT or not (
        word in _VAGUE or word.isdigit() or any(is_of(word, name) for name in names))}  # fmt: skip
    points = dict(zip((one.id for one in scenarios), _points(told, scenarios), strict=True))
    chosen = [one for one in scenarios if (one.symptom in names if names else points[one.id] > 0)]
    order, common = names or [FIRST, *SYMPTOMS], _common()

    def place(one: Scenario) -> tuple[float, ...]:
        mends = "repairs/" in one.file.replace("\\", "/")         # shows what a repair does, not what somebody has seen
        often = common.index(one.id) if one.id in common else len(common)
        return order.index(one.symptom) if one.symptom in order else len(order), mends, -points[one.id], often

    return sorted(chosen, key=place)


def _with_most(asked: AbstractSet[str], scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Those that have most of the words, if that is enough of them."""
    said = {one.id: asked & set(stems(f"{one.title} {one.why}")) for one in scenarios}
    most = max((len(words) for words in said.values()), default=0)
    return [one for one in scenarios if len(said[one.id]) == most] if most >= max(1, ENOUGH * len(asked)) else []


def _points(told: AbstractSet[str], scenarios: Sequence[Scenario]) -> list[float]:
    """How well each scenario fits words: a word counts for more where few scenarios have it in their titles."""
    titles = [_title(one) for one in scenarios]
    texts = [frozenset(_one(stem) for stem in stems(one.why)) for one in scenarios]
    rare = {word: math.log((1 + len(titles)) / (1 + sum(word in title for title in titles))) for word in sorted(told)}
    return [round(sum(rare[word] * (TITLE if word in title else TEXT if word in text else 0) for word in rare), 6)
            for title, text in zip(titles, texts, strict=True)]  # fmt: skip


@cache
def _title_of(text: str, engine: str, model: str) -> frozenset[str]:
    return frozenset({_one(stem) for stem in stems(text)} | {engine, *engine.split("_")} | _kinds(model))


def _title(one: Scenario) -> frozenset[str]:
    """What a scenario is about, in stems: its id and title, its engine, the kinds of its model."""
    return _title_of(f"{one.id} {one.title}", one.engine, one.model)


def _topics(text: str) -> set[str]:
    """The stems of a description, one for each thing. Names of models become their kinds."""
    words = re.findall(r"[a-z0-9_]+", text.lower()[:400])
    found: set[str] = set()
    named: set[int] = set()
    for many in (3, 2, 1):
        for at in range(len(words) - many + 1):
            kinds = set() if named & {*range(at, at + many)} else _of_name("".join(words[at : at + many]), many)
            found |= kinds
            named |= {*range(at, at + many)} if kinds else set()
    left = {stem for at in named for stem in stems(words[at])}
    return {_one(stem) for stem in stems(text) if stem not in left} | found


def _of_name(name: str, words: int) -> set[str]:
    """The kinds of a known model, or of those whose names begin so; nothing for another word."""
    if (model := known(name)) is not None:
        return _of_layers(MODELS[model].layers)
    if words > 1 or len(name) < FEWEST:
        return set()
    alike = [_of_layers(MODELS[full].layers) for one in known_names() if _plain(one).startswith(name)
             if (full := known(one)) is not None]  # fmt: skip
    return alike[0] if alike and all(kinds == alike[0] for kinds in alike) else set()


def _kinds(model: str) -> set[str]:
    """The kinds of layers of a scenario's model, which is a name of ours or a notation."""
    said = {kind for kind in _KINDS if kind in model} | ({"window"} if "swa" in model else set())
    longest = max((one for one in known_names() if model.startswith(_plain(one))), key=len, default="")
    if full := known(longest) if longest else None:
        return said | _of_layers(MODELS[full].layers)
    return said | _of_layers(model.partition("+")[0])


def _of_layers(layers: str) -> set[str]:
    """window, hybrid, recurrent: what attention alone is not."""
    try:
        found = parse(layers).layers
    except BadInput:
        return set()
    states, rows = any(layer.recurrence for layer in found), any(layer.part for layer in found)
    kinds = {"window": any(layer.window for layer in found), "recurrent": states, "hybrid": states and rows}
    return {kind for kind, there in kinds.items() if there}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _one(stem: str) -> str:
    return _STANDS_FOR.get(stem, stem)


_ABOUT = frozenset(_STANDS_FOR.values())


@cache
def _common() -> list[str]:
    """Ids of what is reported most, in their order."""
    lines = (corpus_root() / COMMON).read_text("utf-8").splitlines()
    return [one for line in lines for one in line.partition(":")[2].split()]
