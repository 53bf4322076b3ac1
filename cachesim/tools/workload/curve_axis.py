"""Axis of a curve: an option of the server, or the number of sessions at a time, with the values that are tried."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, first_of, nearest, quoted
from cachesim.engines.capabilities import Option, ServerLoad, plain_name
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.capacity import CapacityForms, CapacityQuestion, CapacitySize
from cachesim.scenarios.option_checks import in_force, parse_setting
from cachesim.tools.workload.block_tokens import follow_ups
from cachesim.tools.workload.curve_memory import ServerMemory
from cachesim.tools.workload.recorded_session import WorkloadSession

SESSIONS = "sessions"
MEMORY = "memory"
MOST_VALUES = 64
DOUBLINGS = 10              # most values of an axis that begins with 0, besides 0


class CurveRequest(NamedTuple):
    """Axis as it was given: a name, and the words of its values, () = the curve chooses them."""

    name: str
    words: tuple[str, ...]


class CurveAxis(NamedTuple):
    """Axis of a curve. ``option``: option of the server, "" = the number of sessions at a time; ``unit``: what the
    values count, "" = no unit; ``filled``: the server derives the value from its memory if it is not given;
    ``present``: value of the server without a change, None = none."""

    option: str
    unit: str
    values: tuple[Option, ...]
    filled: bool = False
    present: Option | None = None


def parse_request(text: str) -> CurveRequest:
    """Parse ``NAME`` or ``NAME=VALUE,VALUE``. Raise BadInput."""
    name, equals, values = text.partition("=")
    words = tuple(values.split(",")) if equals else ()
    if not name or not all(words):
        raise BadInput(f"--curve: expected NAME or NAME=VALUE,VALUE, found {quoted(text)}")
    if len(words) > MOST_VALUES:
        raise BadInput(f"--curve: {len(words)} values, at most {MOST_VALUES} are allowed")
    return CurveRequest(plain_name(name), words)


def sessions_axis(request: CurveRequest, files: int) -> CurveAxis:
    """Return the numbers of sessions at a time: those of the request, else 1, 2, 4 and so on, up to all files. Raise
    BadInput."""
    if not request.words:
        return CurveAxis("", SESSIONS, tuple(_doubled(1, files)))
    for word in request.words:
        if not word.isascii() or not word.isdigit() or not 1 <= int(word) <= files:
            raise BadInput(f"--curve sessions: expected 1 to {files} (the number of files), found {quoted(word)}")
    return CurveAxis("", SESSIONS, _ascending(int(word) for word in request.words))


def option_axis(
    request: CurveRequest, profile: str, given: Mapping[str, Option], load: ServerLoad, memory: ServerMemory
) -> CurveAxis:
    """Return the values of an option of the server. ``given``: its other options; ``memory``: its bytes. Raise
    BadInput."""
    engine = engine_of(profile)
    forms = engine.capacity()
    size = _size(request.name, engine, forms)
    if size is None:
        return _plain_axis(request, profile, given)
    options = in_force(given, profile)
    present = given.get(size.option, None if size.filled else options[size.option])
    question = CapacityQuestion(options, load, memory.token_bytes)
    if request.name == MEMORY and request.words:
        values: tuple[Option, ...] = tuple(memory.values(size, request.words))
    elif request.words:
        values = _parsed(request, engine)
    else:
        values = tuple(grid(*size.values(question)))
    also = () if present is None or (request.name == MEMORY and request.words) else (present,)
    return CurveAxis(size.option, size.unit, _ascending((*values, *also)), size.filled, present)


def _size(name: str, engine: Engine, forms: CapacityForms | None) -> CapacitySize | None:
    """Return the size that a name means, None for an option that sets none. Raise BadInput for an unknown name."""
    sizes = forms.sizes if forms else ()
    if name == MEMORY:
        if not sizes:
            raise BadInput(f"--curve memory: the sizes of {engine.name} are not known", hint="name an option")
        return sizes[0]
    known = engine.manual.named(name)
    if known is None or not known[1]:
        words = [SESSIONS, MEMORY, *(size.option for size in sizes), *engine.manual.defaults]
        hint = nearest(name, words) or f"such as {first_of([SESSIONS, MEMORY, *(size.option for size in sizes)], 160)}"
        raise BadInput(f"--curve: {engine.name} has no option {quoted(name)}", hint=hint)
    return next((size for size in sizes if size.option == known[0].name), None)


def _plain_axis(request: CurveRequest, profile: str, given: Mapping[str, Option]) -> CurveAxis:
    """Return the axis of an option that sets no size."""
    engine = engine_of(profile)
    known = engine.manual.named(request.name)
    assert known is not None
    option = known[0].name
    if not request.words:
        raise BadInput(f"--curve {option}: its values are not given", hint=f"--curve {option}=VALUE,VALUE")
    present = in_force(given, profile)[option]
    values = _parsed(request, engine)
    return CurveAxis(option, "", _ascending((*values, present)), present=present)


def _parsed(request: CurveRequest, engine: Engine) -> tuple[Option, ...]:
    """Return the values of the request as values of the option. Raise BadInput."""
    return tuple(parse_setting(request.name, word, engine.name)[1] for word in request.words)


def _ascending(values: Any) -> tuple[Any, ...]:
    """Return numbers ascending, without duplicates; words in their order. A number below 0 means unlimited."""
    found = dict.fromkeys(values)
    if any(isinstance(value, (str, bool)) for value in found):
        return tuple(found)
    return tuple(sorted(found, key=lambda value: (value < 0, value)))


def grid(least: int, most: int) -> Iterator[int]:
    """Yield the smallest value and powers of two above it, up to one that is at least ``most``."""
    if least:
        yield from _doubled(least, most, up_to_more=True)
        return
    yield 0
    first = 1
    while first << DOUBLINGS < 2 * most:
        first *= 2
    yield from _doubled(first, most, up_to_more=True)


def _doubled(least: int, most: int, up_to_more: bool = False) -> Iterator[int]:
    """Yield ``least`` and the powers of two above it. The last value is ``most``, or with ``up_to_more`` the first
    power of two that is at least that."""
    yield least
    value = 1
    while value <= least:
        value *= 2
    while value < most:
        yield value
        value *= 2
    if least < most:
        yield value if up_to_more else most


def load_of(session: WorkloadSession) -> ServerLoad:
    """Return the demand of a recording: its longest request, the tokens of all blocks and of all that has no block, and
    the number of requests that no other one continues."""
    requests = session.requests
    blocks = {block for one in requests for block in one.blocks}
    rest = sum(max(0, one.n_prompt - len(one.blocks) * session.block_size) + one.n_answer for one in requests)
    return ServerLoad(
        longest=max(one.n_prompt + one.n_answer for one in requests),
        total=len(blocks) * session.block_size + rest,
        conversations=sum(after is None for after in follow_ups(requests)),
    )


def largest_load(loads: Sequence[ServerLoad]) -> ServerLoad:
    """Return the largest demand on any of several servers."""
    return ServerLoad(
        longest=max(load.longest for load in loads),
        total=max(load.total for load in loads),
        conversations=max(load.conversations for load in loads),
    )
