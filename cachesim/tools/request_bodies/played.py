"""The requests as a scenario, and what the simulator reuses of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.notation.tree import Asked as Step
from cachesim.scenarios.option_checks import model_named
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.request_bodies.links import PromptRecord
from cachesim.tools.request_bodies.stretches import ScenarioWords, TokenRequest

ROOM = 120_000               # tokens that a toy model's own context holds, with an answer
ANSWER = 4_096               # most tokens of an answer that are played


class PlayedImport(NamedTuple):
    """``reused``: tokens for each request that was played, None = it was refused; ``toml``: the scenario file;
    ``left``: how many requests are too many to be played."""

    scenario: Scenario
    reused: Sequence[int | None]
    toml: str
    left: int


class _Answers(Silent):
    def __init__(self) -> None:
        self.found: dict[int, Answer] = {}

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        self.found[number] = answer


def play_bodies(
    asked: Sequence[PromptRecord], profile: str, model: str, server: Mapping[str, Any], head: Mapping[str, Any]
) -> PlayedImport:
    """Play as many of the requests as the limits of a run allow, from the first on. ``head``: id, title and why of the
    scenario file. Raises BadInput."""
    words, steps = ScenarioWords(), []
    for one in asked[: _fitting(asked)]:
        steps.append(words.add(_asking(one)))
    engine = profile.partition("@")[0]
    named = model_named(model, engine)
    options = {**_context(engine, asked[: len(steps)]), **server}
    made = make_steps(steps, words.words, options)
    scenario = Scenario(
        id=head["id"], title=head["title"], source=("cachesim",), why=head["why"], engine=engine, model=named.model,
        profiles=(profile,), server=options, words=words.words, steps=made,
    )
    answers = _Answers()
    try:
        play(scenario, profile, "none", answers)
    except BadInput:                             # more tokens than a run may have: what was played by then stands
        if not answers.found:
            raise
        steps = steps[: len(answers.found)]
        scenario = replace(scenario, steps=made[: len(steps)], words=_used(words.words, steps))
    reused = [_reused(answers.found.get(number)) for number in range(len(steps))]
    return PlayedImport(scenario, reused, _toml(scenario, steps, head), len(asked) - len(steps))


def _used(words: Mapping[str, int], steps: Sequence[Step]) -> dict[str, int]:
    """The words of these steps, in their order."""
    names = {piece.word for step in steps for piece in (*step.prompt, *(step.answer or ()))}
    return {name: size for name, size in words.items() if name in names}


def _asking(one: PromptRecord) -> TokenRequest:
    user = -1
    messages = one.body.messages
    last = max((number for number, said in enumerate(messages) if said.role == "user"), default=-1)
    if last >= 0 and not one.body.raw and one.plain.text:
        user = round(one.tokens * one.plain.begins[last] / len(one.plain.text))
    return TokenRequest(one.tokens, one.base, one.best, min(one.answer, ANSWER), user)


def _fitting(asked: Sequence[PromptRecord]) -> int:
    """How many of the requests a scenario may hold: its prompts and answers, and its file."""
    prompts = answers = 0
    for number, one in enumerate(asked):
        prompts, answers = prompts + one.tokens, answers + min(one.answer, ANSWER)
        if (prompts > limits.PROMPT_TOKENS.now or answers > limits.NEW_TOKENS.now or number >= limits.REBUILT.now
                or one.tokens > limits.WORD_LENGTH.now):
            return number
    return len(asked)


def _context(engine: str, asked: Sequence[PromptRecord]) -> dict[str, Any]:
    """A context as long as the longest prompt needs, where the model's own is too short."""
    needed = max((one.tokens + min(one.answer, ANSWER) for one in asked), default=0)
    if needed <= ROOM:
        return {}
    manual = ENGINES[engine].manual
    found = ENGINES[engine].log().options({"needed": needed, "n_slots": 1})
    return {name: value for name, value in found.items() if manual.flag(name) is not None and name != "n_slots"}


def _reused(answer: Answer | None) -> int | None:
    return None if answer is None or answer.error else answer.cache_n


def _toml(scenario: Scenario, steps: Sequence[Step], head: Mapping[str, Any]) -> str:
    top = {**head, "source": ["cachesim"], "engine": scenario.engine, "model": scenario.model,
           "profiles": list(scenario.profiles)}  # fmt: skip
    return to_toml(top, scenario.server, scenario.words, steps)
