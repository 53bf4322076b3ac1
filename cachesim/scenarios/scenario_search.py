"""Search for scenarios by a description in the user's words.

The symptom in the description selects the scenarios. A server in it comes first, then its other topics (kind of model,
reasoning, tools, drafts) rank them; without other topics, the most frequently reported causes come first.
"""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from typing import AbstractSet, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.known_models import MODELS, known_names
from cachesim.engines.shared.known_models import find as known
from cachesim.model.spec import parse
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.failure_words import failure_named
from cachesim.scenarios.scenario_heads import ScenarioHead
from cachesim.scenarios.symptoms import ENOUGH, SYMPTOMS, describes, stems, symptoms_of_stems

COMMON = "COMMON.txt"        # lines "SYMPTOM: id id", the most frequently reported scenario first
TITLE, TEXT = 2.0, 0.5       # weight of a word in the title of a scenario, and in its explanation only
FEWEST = 4                   # minimum letters of an abbreviated model name
FIRST = "re-processed"       # symptom that most people mean who name only a model

_SAME = (
    "window swa sliding", "hybrid deltanet", "recurrent mamba ssm rwkv", "reasoning thinking think thought",
    "tool tools function", "date timestamp clock", "draft speculative speculation mtp eagle",
    "batch batched parallel concurrent concurrency simultaneous together ragged", "edited edit regenerate retry swipe",
    "agent agents subagent subagents client clients sibling siblings", "same identical", "file files saved save",
)  # fmt: skip
"""Groups of synonyms; the first word of a group represents it."""
_VAGUE = frozenset(stems("""prompt cache conversation message turn user whole entire start back way run make other
    another first last next new old work data due lack kv output answer content token some something many most long
    wrong not non any more"""))
"""Words that fit most scenarios and therefore do not rank them."""
_STANDS_FOR = {stem: stems(group)[0] for group in _SAME for stem in stems(group)}
_KINDS = ("window", "hybrid", "recurrent")


def matching(text: str, scenarios: Sequence[ScenarioHead]) -> list[ScenarioHead]:
    """Return the scenarios that match a description, best first.

    If the description contains no known symptom: the scenarios whose titles have a model or topic in it, else those
    whose title and explanation contain most of its words.
    """
    topics = _topics(text)
    words = [word for word in topics if word not in _ABOUT or any(describes(word, name) for name in SYMPTOMS)]
    failure = failure_named(text)
    names = [text] if text in SYMPTOMS else [failure] if failure else symptoms_of_stems(words)
    if not names and not topics & _ABOUT:
        return _with_most(set(stems(text)), scenarios)
    ranking = {word for word in topics if word in _ABOUT or not (
        word in _VAGUE or word.isdigit() or any(describes(word, name) for name in names))}  # fmt: skip
    points = dict(zip((scenario.id for scenario in scenarios), _points(ranking, scenarios), strict=True))
    engines = topics & {*ENGINES}
    if names and engines and not any(each.symptom in names and each.engine in engines for each in scenarios):
        names = [*names, FIRST]
    chosen = [each for each in scenarios if (each.symptom in names if names else points[each.id] > 0)]
    order, common = names or [FIRST, *SYMPTOMS], _common()

    def rank(scenario: ScenarioHead) -> tuple[float, ...]:
        repair = "repairs/" in scenario.file.replace("\\", "/")   # shows the effect of a repair, not a user's report
        often = common.index(scenario.id) if scenario.id in common else len(common)
        symptom = order.index(scenario.symptom) if scenario.symptom in order else len(order)
        is_other = bool(engines) and scenario.engine not in engines
        return is_other, symptom, repair, -points[scenario.id], often

    return sorted(chosen, key=rank)


def _with_most(words: AbstractSet[str], scenarios: Sequence[ScenarioHead]) -> list[ScenarioHead]:
    """Return the scenarios that contain most of the words, if that is at least the share ``ENOUGH`` of them: those with
    at least half of the best score, best first."""
    counts = {each.id: len(words & set(stems(f"{each.title} {each.why}"))) for each in scenarios}
    most = max(counts.values(), default=0)
    if most < max(1, ENOUGH * len(words)):
        return []
    points = dict(zip((each.id for each in scenarios), _points({*map(_representative, words)}, scenarios), strict=True))
    found = [each for each in scenarios if counts[each.id] == most and 2 * points[each.id] >= max(points.values())]
    return sorted(found, key=lambda each: -points[each.id])


def _points(words: AbstractSet[str], scenarios: Sequence[ScenarioHead]) -> list[float]:
    """Return a score of each scenario for words, weighted by inverse document frequency over the titles."""
    titles = [_title(scenario) for scenario in scenarios]
    texts = [frozenset(_representative(stem) for stem in stems(scenario.why)) for scenario in scenarios]
    rare = {word: math.log((1 + len(titles)) / (1 + sum(word in title for title in titles))) for word in sorted(words)}
    return [round(sum(rare[word] * (TITLE if word in title else TEXT if word in text else 0) for word in rare), 6)
            for title, text in zip(titles, texts, strict=True)]  # fmt: skip


@lru_cache(maxsize=2048)
def _title_of(text: str, engine: str, model: str) -> frozenset[str]:
    topics = {_representative(stem) for stem in stems(text)}
    return frozenset(topics | {engine, *engine.split("_")} | kinds_of_model(model))


def _title(scenario: ScenarioHead) -> frozenset[str]:
    """Return the topics of a scenario as stems: its id and title, its engine, the kinds of its model."""
    return _title_of(f"{scenario.id} {scenario.title}", scenario.engine, scenario.model)


def _topics(text: str) -> set[str]:
    """Return the stems of a description without synonyms. Names of models become kinds of models."""
    words = re.findall(r"[a-z0-9_]+", text.lower()[:400])
    found = {name for name, engine in ENGINES.items() if engine.words and re.search(engine.words, text[:400].lower())}
    named: set[int] = set()
    for many in (3, 2, 1):
        for at in range(len(words) - many + 1):
            kinds = set() if named & {*range(at, at + many)} else _of_name("".join(words[at : at + many]), many)
            found |= kinds
            named |= {*range(at, at + many)} if kinds else set()
    left = {stem for at in named for stem in stems(words[at])}
    return {_representative(stem) for stem in stems(text) if stem not in left} | found


def _of_name(name: str, words: int) -> set[str]:
    """Return the kinds of a known model, or of all models with this prefix if they agree; else an empty set. ``words``:
    number of words of the name."""
    if (model := known(name)) is not None:
        return _of_layers(MODELS[model].layers)
    if words > 1 or len(name) < FEWEST:
        return set()
    alike = [_of_layers(MODELS[full].layers) for known_name in known_names() if _plain(known_name).startswith(name)
             if (full := known(known_name)) is not None]  # fmt: skip
    return alike[0] if alike and all(kinds == alike[0] for kinds in alike) else set()


def topics_of_title(scenario: ScenarioHead) -> frozenset[str]:
    """Return the topics of a scenario's id and title: the first word of each group of synonyms in it."""
    return _ABOUT & {_representative(stem) for stem in stems(f"{scenario.id} {scenario.title}")}


def kinds_of_model(model: str) -> set[str]:
    """Return the kinds of a scenario's model, which is a name in cachesim or a notation of layers."""
    named = {kind for kind in _KINDS if kind in model} | ({"window"} if "swa" in model else set())
    longest = max((name for name in known_names() if model.startswith(_plain(name))), key=len, default="")
    if full := known(longest):
        return named | _of_layers(MODELS[full].layers)
    return named | _of_layers(model.partition("+")[0])


def _of_layers(layers: str) -> set[str]:
    """Return the kinds of a model from its layers: window, hybrid, recurrent; an empty set for full attention."""
    try:
        found = parse(layers).layers
    except BadInput:
        return set()
    states, rows = any(layer.recurrence for layer in found), any(layer.part for layer in found)
    kinds = {"window": any(layer.window for layer in found), "recurrent": states, "hybrid": states and rows}
    return {kind for kind, there in kinds.items() if there}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _representative(stem: str) -> str:
    return _STANDS_FOR.get(stem, stem)


_ABOUT = frozenset(_STANDS_FOR.values())


@cache
def _common() -> list[str]:
    """Return the ids of the most frequently reported scenarios, in order."""
    lines = (corpus_root() / COMMON).read_text("utf-8").splitlines()
    return [name for line in lines for name in line.partition(":")[2].split()]
