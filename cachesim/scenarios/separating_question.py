"""The question whose answer separates the likeliest scenarios of a description."""

from __future__ import annotations

import math
from collections import Counter
from typing import Callable, NamedTuple, Sequence

from cachesim.engines.registry import ENGINES
from cachesim.scenarios.scenario_heads import ScenarioHead
from cachesim.scenarios.scenario_search import kinds_of_model, topics_of_title
from cachesim.scenarios.symptoms import SYMPTOMS, stems

LIKELIEST = 5                # scenarios that are separated
OTHER = "none of these"
TOPICS = {"reasoning": "reasoning is removed or changed", "date": "a date or time in the prompt", "draft": "drafts",
          "agent": "several agents or clients", "edited": "an edit or a retry", "tool": "tools",
          "batch": "requests at the same time", "same": "the same prompt again", "file": "slot files"}  # fmt: skip


class PossibleAnswer(NamedTuple):
    """Possible answer, and the ids of the scenarios that it selects."""

    text: str
    scenarios: tuple[str, ...]


class Question(NamedTuple):
    """Question, and its answers in the order of the scenarios."""

    text: str
    answers: tuple[PossibleAnswer, ...]


def separating_question(scenarios: Sequence[ScenarioHead]) -> Question | None:
    """Return the question whose answers divide the scenarios most evenly; None if no question divides them."""
    asked = [Question(text, _answers(scenarios, value)) for text, value in _QUESTIONS.items()]
    best = max(asked, key=_information)
    return best if len(best.answers) > 1 else None


def _answers(scenarios: Sequence[ScenarioHead], value: Callable[[ScenarioHead], str]) -> tuple[PossibleAnswer, ...]:
    """Return the values of the scenarios with their ids, ``OTHER`` last."""
    groups: dict[str, list[str]] = {}
    for scenario in scenarios:
        groups.setdefault(value(scenario), []).append(scenario.id)
    order = sorted(groups, key=lambda text: text == OTHER)
    return tuple(PossibleAnswer(text, tuple(groups[text])) for text in order)


def _information(question: Question) -> float:
    """Return the entropy of the answers [nats], rounded."""
    sizes = Counter({answer.text: len(answer.scenarios) for answer in question.answers})
    total = sizes.total()
    return round(-sum(size / total * math.log(size / total) for size in sizes.values()), 6)


def _model(scenario: ScenarioHead) -> str:
    """Return the kind of a scenario's model."""
    kinds = kinds_of_model(scenario.model)
    names = [name for kind, name in (("hybrid", "hybrid"), ("window", "with a sliding window")) if kind in kinds]
    if names:
        return " ".join(names)
    return "recurrent" if "recurrent" in kinds else "full attention"


def _topic(scenario: ScenarioHead) -> str:
    """Return the topic of a scenario's title, ``OTHER`` if it has none."""
    topics = topics_of_title(scenario)
    return next((text for topic, text in TOPICS.items() if stems(topic)[0] in topics), OTHER)


_QUESTIONS: dict[str, Callable[[ScenarioHead], str]] = {
    "What happens?": lambda scenario: SYMPTOMS[scenario.symptom].text if scenario.symptom else OTHER,
    "Which server is it?": lambda scenario: ENGINES[scenario.engine].recorded.name,
    "What is involved?": _topic,
    "Which kind of model is it?": _model,
}
"""Questions with the value of a scenario that answers them; of equally good questions, the first one is asked."""
