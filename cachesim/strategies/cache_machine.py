"""State machine of Hypothesis that drives a cache operation by operation and checks it after each.

    class TestMine(CachedEqualsCold, NeverNegativeReuse):          # invariants: cache_invariants.py
        def new_cache(self): return MyDriver()

    test_mine = TestMine.TestCase

A run is a line: prompts as they are inserted, other operations in braces, ``A5.B3/{fork 0}/{trim 1 2}/A5.C1``. Numbers
count the sequences in the order in which they appeared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Callable, ClassVar, Iterator, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine
from hypothesis.stateful import rule as machine_rule

from cachesim.base.errors import quoted
from cachesim.base.tokens import Tokens
from cachesim.strategies.argument_checks import BadArgument
from cachesim.strategies.cache_driver import CacheDriver, StoredPrompt
from cachesim.strategies.conversation_strategies import requests
from cachesim.strategies.drawn_values import ClientRequest, ShortRepr, request, text_of

STEP = re.compile(r"\{[^{}]*\}|[^/{}]+|[{}]")
OPERATION = re.compile(
    r"(?P<prompt>[^{}]+)|\{(?P<asked>look_up|restore) (?P<text>[^{}]+)\}"
    r"|\{(?P<name>evict|fork|trim(?= \d+ \d)) (?P<number>\d{1,9})( (?P<length>\d{1,9}))?\}"
)
CHOICE = re.compile(r"(?P<name>\{(?:evict|fork|trim) )(?P<number>\d+)")
KNOWN = "{look_up A5}, {evict 0}, {fork 0}, {trim 0 3}, {restore A5}"
NAMES = ("look_up", "evict", "fork", "trim", "restore")
"""Operations that a driver may have besides ``insert``."""


@dataclass(frozen=True, slots=True, repr=False)
class CacheOperation(ShortRepr):
    """An operation. ``repr`` is its text in a line: a prompt that is inserted, or another operation in braces;
    "nothing" for none."""

    text: str

    def __repr__(self) -> str:
        return self.text or "nothing"


class HeldSequence(NamedTuple):
    """A sequence that the cache holds."""

    number: int                          # in the order in which the sequences appeared
    tokens: Tokens
    handle: Any


class ReportedReuse(NamedTuple):
    """Reuse that the cache reported for a prompt, and the prompts that it had seen before."""

    tokens: Tokens
    cached: int
    seen: tuple[Tokens, ...]


class CacheFault(AssertionError):
    """A broken invariant. The first line of ``str()`` is the shortest run that breaks it and the fault, the last one
    repeats the run. ``check``: name of the check; ``steps``: the run; ``text``: the fault after it."""

    def __init__(self, machine: type[CacheMachine], check: str, steps: tuple[str, ...], text: str) -> None:
        self.machine = machine
        self.check = check
        self.steps = steps
        self.text = text
        super().__init__(check, text)

    @cached_property
    def shortest(self) -> CacheFault:
        """The fault of the shortest run, found by removing single operations until none can be removed. Hypothesis
        removes most of them; which ones depends on its version."""
        found = self
        while (smaller := next(filter(None, map(found._repeated, _without_a_step(found.steps))), None)) is not None:
            found = smaller
        return found

    def _repeated(self, steps: tuple[str, ...]) -> CacheFault | None:
        """Return the fault of the same check in another run; None if that run ends in another way."""
        try:
            self.machine.repeat("/".join(steps))
        except CacheFault as fault:
            return fault if fault.check == self.check else None
        except Exception:
            return None
        return None

    def __str__(self) -> str:
        found = self.shortest
        line = "/".join(found.steps)
        return f"{line}: {found.text}\n  again: {self.machine.__name__}.repeat({line!r})"


def _without_a_step(steps: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the run without each step, the last first: as it is, and with lower numbers of later sequences if the step
    made one."""
    for place in reversed(range(len(steps))):
        before, after = steps[:place], steps[place + 1 :]
        yield (*before, *after)
        for made in range(place + 1):
            yield (*before, *(CHOICE.sub(partial(_lowered, made), step) for step in after))


def _lowered(made: int, found: re.Match[str]) -> str:
    number = int(found["number"])
    return f"{found['name']}{number - 1 if number > made else number}"


class CacheMachine(RuleBasedStateMachine):
    """State machine for a cache. A subclass defines ``new_cache`` and inherits invariants.

    ``prompts``: strategy of the prompts (words A to Z), for example ``requests(near=[16])`` for blocks of 16 tokens. A
    method whose name begins with ``check_`` runs after every operation, and raises ``self.fault(text)``. ``TestCase``
    is the test.
    """

    prompts: ClassVar[st.SearchStrategy[ClientRequest]] = requests(words=3, max_words=3, max_length=8)

    def new_cache(self) -> CacheDriver:
        """Return a driver of an empty cache."""
        raise NotImplementedError(f"{type(self).__name__} lacks new_cache")

    def __init__(self) -> None:
        super().__init__()
        self.driver = self.new_cache()
        self.held: list[HeldSequence] = []
        self.evicted: list[Tokens] = []
        self.seen: list[Tokens] = []                 # prompts that were inserted
        self.reuse: ReportedReuse | None = None      # that of the last operation, None if it reported none
        self.steps: list[str] = []
        self._count, self._check = 0, ""
        self._cold: dict[Tokens, Any] = {}

    @property
    def line(self) -> str:
        """The operations so far, which ``repeat`` reads."""
        return "/".join(self.steps)

    def cold(self, tokens: Tokens) -> Any:
        """Return the contents of these tokens in a new cache without anything else. Raise CacheFault if it has no
        room for them."""
        if tokens not in self._cold:
            driver = self.new_cache()
            stored = driver.insert(tokens)
            if stored is None:
                raise self.fault(f"an empty cache has no room for {text_of(tokens)}")
            self._cold[tokens] = driver.read(stored.handle)
        return self._cold[tokens]

    def fault(self, text: str) -> CacheFault:
        """Return the error for a broken invariant, with the run and the call that repeats it."""
        return CacheFault(type(self), self._check, tuple(self.steps), text)

    @classmethod
    def repeat(cls, line: str) -> None:
        """Run the operations of a line and check the cache after each, as a test without Hypothesis. Raise CacheFault,
        what the driver raises, or BadArgument for a line that cannot run."""
        machine = cls()
        for part in STEP.findall(line):
            machine._perform(part.strip())

    def _read(self, part: str) -> Callable[[], None]:
        """Return the operation of a text. Raise BadArgument."""
        found = OPERATION.fullmatch(part)
        if found is None:
            raise BadArgument(f"expected a prompt or an operation in braces, found {part!r:.60}", hint=KNOWN)
        if found["prompt"]:
            return partial(self._insert, request(part).prompt)
        if found["asked"]:
            tokens = request(found["text"]).prompt
            if found["asked"] == "look_up":
                return partial(self._look_up, tokens)
            if tokens not in self.evicted:
                raise BadArgument(f"{part}: no sequence with these tokens was evicted")
            return partial(self._restore, tokens)
        places = {one.number: place for place, one in enumerate(self.held)}
        number = int(found["number"])
        if number not in places:
            raise BadArgument(f"{part}: there is no sequence {number}", hint=f"sequences: {sorted(places)}")
        if found["length"]:
            return partial(self._trim, places[number], int(found["length"]))
        return partial(self._fork if found["name"] == "fork" else self._evict, places[number])

    def operations(self) -> st.SearchStrategy[CacheOperation]:
        """Return a strategy of the operations that are possible now. The simplest does nothing: Hypothesis removes a
        step of few choices at once, and a longer one hardly ever."""
        able = {"evict": self.held, "fork": self.held, "trim": self.held, "restore": self.evicted}
        names = ["nothing", "insert", *(name for name in NAMES if self.driver.has(name) and able.get(name, True))]
        return st.sampled_from(names).flatmap(self._arguments)

    def _arguments(self, name: str) -> st.SearchStrategy[CacheOperation]:
        if name == "nothing":
            return st.just(CacheOperation(""))
        if name == "insert":
            return self.prompts.map(lambda prompt: CacheOperation(prompt.text))
        if name == "look_up":
            return self.prompts.map(lambda prompt: CacheOperation(f"{{look_up {prompt.text}}}"))
        if name == "restore":
            return st.sampled_from(self.evicted).map(lambda tokens: CacheOperation(f"{{restore {text_of(tokens)}}}"))
        chosen = st.sampled_from(self.held)
        if name != "trim":
            return chosen.map(lambda one: CacheOperation(f"{{{name} {one.number}}}"))
        return chosen.flatmap(lambda one: st.integers(1, len(one.tokens)).map(
            lambda length: CacheOperation(f"{{trim {one.number} {length}}}")))  # fmt: skip

    @machine_rule(operation=st.runner().flatmap(lambda machine: machine.operations()))
    def operate(self, operation: CacheOperation) -> None:
        """Run an operation, then every check."""
        if operation.text:
            self._perform(operation.text)

    # Operations

    def _perform(self, text: str) -> None:
        """Run an operation and then every check. An error of the driver gets the run as a note. Raise BadArgument for a
        text that is not an operation."""
        operation = self._read(text)
        self.steps.append(text)
        self.reuse = None
        try:
            operation()
            for name in self._checks():
                self._check = name
                getattr(self, name)()
        except CacheFault:
            raise
        except Exception as error:
            error.add_note(f"{self.line}\n  again: {self._again}")
            raise

    @classmethod
    def _checks(cls) -> list[str]:
        """Return the names of the checks, without a method of Hypothesis that is called like them."""
        return [name for name in dir(cls) if name.startswith("check_") and not hasattr(RuleBasedStateMachine, name)]

    @property
    def _again(self) -> str:
        return f"{type(self).__name__}.repeat({self.line!r})"

    def _hold(self, tokens: Tokens, handle: Any) -> None:
        self.held.append(HeldSequence(self._count, tokens, handle))
        self._count += 1

    def _insert(self, tokens: Tokens) -> None:
        stored = self.driver.insert(tokens)
        if stored is not None:
            if not isinstance(stored, StoredPrompt):
                raise self.fault(f"insert returned {quoted(stored)}, not a StoredPrompt or None")
            self.reuse = ReportedReuse(tokens, stored.cached, tuple(self.seen))
            self._hold(tokens, stored.handle)
            self.seen.append(tokens)

    def _look_up(self, tokens: Tokens) -> None:
        self.reuse = ReportedReuse(tokens, self.driver.look_up(tokens), tuple(self.seen))

    def _evict(self, place: int) -> None:
        gone = self.held.pop(place)
        self.driver.evict(gone.handle)
        self.evicted.append(gone.tokens)

    def _fork(self, place: int) -> None:
        handle = self.driver.fork(self.held[place].handle)
        if handle is not None:
            self._hold(self.held[place].tokens, handle)

    def _trim(self, place: int, length: int) -> None:
        one = self.held[place]
        if self.driver.trim(one.handle, length):
            self.held[place] = one._replace(tokens=one.tokens[:length])

    def _restore(self, tokens: Tokens) -> None:
        handle = self.driver.restore(tokens)
        if handle is not None:
            self._hold(tokens, handle)


def must_have(machine: CacheMachine, operation: str) -> None:
    """Raise BadArgument if an invariant needs an operation that the driver does not override."""
    if not machine.driver.has(operation):
        raise BadArgument(f"{type(machine).__name__}: {type(machine.driver).__name__} lacks {operation}()")
