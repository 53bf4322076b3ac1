"""Which lengths show the same on another model? Words are made longer or shorter where windows and batches differ.

Nothing is claimed of a length that was not simulated: of several ways to change the lengths the first is taken under
which the same requests are wrong as in the scenario.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Iterator, Mapping

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.manual import Option
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.notation.tree import Action, Asked, Piece, Pieces, said_as
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.schema import Scenario

Change = Callable[[int], int]
SIZES = ("ubatch_size", "batch_size", "checkpoint_min_step")
"""Server options that lengths stand in relation to, besides the model's window."""


def fitted(scenario: Scenario, profile: str, model: str, server: Mapping[str, Option]) -> tuple[Scenario, str]:
    """The scenario for another model and server, and what was changed in words ("" = nothing). One in which no request
    is wrong is taken as it is.

    Raises BadInput where no change of lengths was found under which the same requests are wrong."""
    wanted = run_judged(scenario, profile, "provenance", bills=False).broken
    target = replace(scenario, model=model, server=dict(server), expect={}, lives=())
    if not wanted:
        return target, ""
    for said, change in _changes(scenario, target):
        for where, slot in (("", -1), ("every request names slot 0", 0)):
            try:
                tried = _with(target, change, slot)
                if run_judged(tried, profile, "provenance", bills=False).broken == wanted:
                    return tried, "; ".join(filter(None, (said, where)))
            except BadInput:
                continue
    wrong = ", ".join(map(str, wanted))
    raise BadInput(f"no lengths were found at which the same requests are wrong ({wrong}) with the model {model} and "
                   "these options", file=scenario.file)  # fmt: skip


def _changes(scenario: Scenario, target: Scenario) -> Iterator[tuple[str, Change]]:
    """Ways to change lengths, the least first, and each in words."""
    yield "", lambda n: n
    for name, old, new in _sizes(scenario, target):
        yield f"lengths from {old} on are {new - old:+} tokens ({name})", _moved(old, new)
        yield f"lengths are {new}/{old} of the scenario's ({name})", _scaled(old, new)


def _sizes(scenario: Scenario, target: Scenario) -> Iterator[tuple[str, int, int]]:
    """What lengths stand in relation to, here and there, where it differs."""
    pairs = [("window", _window(scenario.model), _window(target.model))]
    pairs += [(name, _number(scenario, name), _number(target, name)) for name in SIZES]
    yield from ((name, old, new) for name, old, new in pairs if old > 0 and new > 0 and old != new)


def _number(scenario: Scenario, name: str) -> int:
    value = scenario.server.get(name, 0)
    return value if isinstance(value, int) else 0


def _window(model: str) -> int:
    try:
        return max((layer.window for layer in model_kind(model).spec.layers), default=0)
    except BadInput:
        return 0


def _moved(old: int, new: int) -> Change:
    return lambda n: n if n < min(old, new) else max(1, n + new - old)


def _scaled(old: int, new: int) -> Change:
    return lambda n: max(1, round(n * new / old))


def _with(scenario: Scenario, change: Change, slot: int) -> Scenario:
    """The scenario with every length changed, those of slices too; requests that name no slot name this one."""
    words = {word: change(length) for word, length in scenario.words.items()}

    def pieces(text: Pieces) -> Pieces:
        return tuple(_piece(piece, change, words) for piece in text)

    steps = tuple(_at(said_as(step.asked, pieces), slot) for step in scenario.steps)
    whys = [step.why for step in scenario.steps]
    return replace(scenario, words=words, steps=make_steps(steps, words, scenario.server, whys))


def _at(step: Asked | Action, slot: int) -> Asked | Action:
    return step if isinstance(step, Action) or step.id_slot >= 0 else step._replace(id_slot=slot)


def _piece(piece: Piece, change: Change, words: Mapping[str, int]) -> Piece:
    start, stop = (None if end is None else change(end) if end else 0 for end in (piece.start, piece.stop))
    if stop is not None:
        stop = min(stop, words[piece.word])
    return piece._replace(start=start, stop=stop)
