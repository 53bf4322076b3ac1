"""What does a client send? Turns of conversations, and the scenario in words that they make.

A turn goes on from what an earlier turn asked and was answered: all of it and more, its prompt without the answer and
more, a part of it and something else, a part and nothing, the same again. The answer of a turn is a word too
(``A5>a2/A.a.B3``: the client sends it back).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple, Sequence

from cachesim.errors import BadInput, quoted
from cachesim.scenarios.notation import from_line
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario
from cachesim.scenarios.steps import Asked, make_steps
from cachesim.scenarios.words import Piece

KINDS = ("new", "append", "extend", "branch", "prefix", "repeat")
_BRACES = re.compile(r"(?:\{(?:cancel_after=([0-9]{1,9}))? ?(together)?\})?")
MOST = 12                    # turns of a history; every one may need two words


class Turn(NamedTuple):
    """One request. ``kind`` says what it does with an earlier turn: the one ``after`` turns before the last, modulo
    those there are (none yet = "new"). ``cut``: tokens taken off the end, less one, where something is; ``new`` tokens
    of a word of its own, where something comes on; ``predict`` tokens are generated. ``together``: sent while the turn
    before is served."""

    kind: str
    after: int
    cut: int
    new: int
    predict: int
    cache: bool = True
    cancel_after: int | None = None
    together: bool = False


class Part(NamedTuple):
    """Tokens start .. stop-1 of a word."""

    word: str
    start: int
    stop: int


Parts = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Requests in words, and after how many generated tokens the client hangs up on each."""

    scenario: Scenario
    hang_ups: tuple[int | None, ...]

    @property
    def line(self) -> str:
        """The history in the project's notation."""
        return repr(self.scenario)

    @property
    def tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(len(step.request.prompt) for step in self.scenario.steps)

    def without(self, *names: str) -> History:
        """The same prompts without these special ways of asking: "cache", "cancel", "burst"."""
        hang_ups = (None,) * len(self.hang_ups) if "cancel" in names else self.hang_ups
        steps = [
            replace(
                step,
                together=step.together and "burst" not in names,
                request=replace(step.request, cache_prompt=step.request.cache_prompt or "cache" in names),
                text=step.text.partition("{")[0],
            )
            for step in self.scenario.steps
        ]
        return _marked(replace(self.scenario, steps=tuple(steps)), hang_ups)


def of_line(line: str) -> History:
    """A history in the project's notation, with the braces that say when a client hangs up and what is sent together.
    Raises BadInput."""
    texts = [text.partition("{") for text in line.split("/")]
    scenario = from_line("/".join(bare for bare, _, _ in texts))
    marks = [_BRACES.fullmatch(brace + rest) for _, brace, rest in texts]
    if not all(marks):
        raise BadInput(f"{quoted(line)}: braces hold cancel_after=N, together, or both in this order")
    hang_ups = tuple(int(mark[1]) if mark and mark[1] else None for mark in marks)
    for hang_up, step in zip(hang_ups, scenario.steps, strict=True):
        if hang_up is not None and hang_up >= step.request.n_predict:
            raise BadInput(f"cancel_after is {hang_up}, but the answer ends after {step.request.n_predict} tokens")
    steps = tuple(replace(step, together=bool(mark and mark[2]) and k > 0)
                  for k, (mark, step) in enumerate(zip(marks, scenario.steps, strict=True)))  # fmt: skip
    return _marked(replace(scenario, steps=steps), hang_ups)


def _marked(scenario: Scenario, hang_ups: tuple[int | None, ...]) -> History:
    """The history with the text of every step brought up to date."""
    steps = []
    for step, hang_up in zip(scenario.steps, hang_ups, strict=True):
        text = step.text.partition("{")[0]
        text = text.replace("!", "") if step.request.cache_prompt else text
        marks = [] if hang_up is None else [f"cancel_after={hang_up}"]
        marks += ["together"] if step.together else []
        steps.append(replace(step, text=text + (f"{{{' '.join(marks)}}}" if marks else "")))
    return History(replace(scenario, steps=tuple(steps)), hang_ups)


def of_turns(turns: Sequence[Turn], most: int) -> History:
    """The turns in words, prompts cut to ``most`` tokens."""
    prompts: list[Parts] = []
    for number, turn in enumerate(turns):
        prompts.append(_first(_prompt(number, turn, turns, prompts), most))
    said = {part.word for prompt in prompts for part in prompt}
    asked = [_asked(number, turn, prompts[number], said) for number, turn in enumerate(turns)]
    words: dict[str, int] = {}
    for number, turn in enumerate(turns):
        words |= {part.word: turn.new for part in prompts[number] if part.word == _word(number)}
        words |= {_answer(number): turn.predict} if _answer(number) in said else {}
    engine = DEFAULT_PROFILE.partition("@")[0]
    steps = make_steps(asked, words)
    scenario = Scenario("kit", "", ("cachesim",), "", engine, "A", (DEFAULT_PROFILE,), {}, words, steps)
    return History(scenario, tuple(turn.cancel_after for turn in turns))


def _prompt(number: int, turn: Turn, turns: Sequence[Turn], prompts: Sequence[Parts]) -> Parts:
    own = (Part(_word(number), 0, turn.new),)
    if turn.kind == "new" or not number:
        return own
    at = number - 1 - turn.after % number
    if turn.kind == "repeat":
        return prompts[at]
    if turn.kind == "extend":
        return (*prompts[at], *own)
    whole = (*prompts[at], Part(_answer(at), 0, turns[at].predict))
    if turn.kind == "append":
        return (*whole, *own)
    left = _first(whole, max(1, _size(whole) - 1 - turn.cut))
    return left if turn.kind == "prefix" else (*left, *own)


def _word(number: int) -> str:
    return chr(ord("A") + number)


def _answer(number: int) -> str:
    return chr(ord("a") + number)


def _size(parts: Parts) -> int:
    return sum(part.stop - part.start for part in parts)


def _first(parts: Parts, most: int) -> Parts:
    """The first ``most`` tokens, or all where there are fewer."""
    out: list[Part] = []
    for part in parts:
        left = most - _size(tuple(out))
        if left > 0:
            out.append(part._replace(stop=min(part.stop, part.start + left)))
    return tuple(out)


def _asked(number: int, turn: Turn, prompt: Parts, said: set[str]) -> Asked:
    answer = Piece(_answer(number), False, None, None, None)
    return Asked(
        prompt=tuple(Piece(part.word, False, None, part.start, part.stop) for part in prompt),
        answer=(answer,) if answer.word in said else None,
        n_predict=turn.predict,
        cache_prompt=turn.cache,
        cancel_after=turn.cancel_after,
        together=turn.together and number > 0,
    )
