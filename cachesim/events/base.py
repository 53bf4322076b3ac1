"""Base classes of events, their recorded form, and the Log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Iterator, Mapping, SupportsFloat, TypeVar, dataclass_transform

from cachesim.base import limits

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen(kind: type[T]) -> type[T]:
    """Make a class an event: a dataclass with slots. ``Event`` compares, hashes and prints all of them, because
    generated methods would cost 25 ms at each start of a command. Only mypy checks that events are not changed:
    instances of a frozen dataclass take five times as long to create, and a conversation creates hundreds."""
    kind.__doc__ = kind.__doc__ or kind.__name__        # ``dataclass`` would read the signature for a docstring
    return dataclass(slots=True, eq=False, repr=False)(kind)


class Event:
    """Base of all events. ``ev`` names the kind; ``logged``: True if the real server prints it and recordings contain
    it; ``printed``: True if the real server prints it. They are class arguments, as in
    ``class Launch(SlotEvent, ev="launch")``."""

    __slots__ = ()
    ev: ClassVar[str] = ""
    logged: ClassVar[bool] = True
    printed: ClassVar[bool] = True
    __match_args__: ClassVar[tuple[str, ...]] = ()              # field names, set by ``frozen``

    def __init_subclass__(cls, ev: str = "", logged: bool | None = None, printed: bool | None = None) -> None:
        printed = logged if printed is None else printed
        cls.ev, cls.logged = ev or cls.ev, cls.logged if logged is None else logged
        cls.printed = cls.printed if printed is None else printed

    @property
    def cached_mib(self) -> float | None:
        """Size of the stored conversations after the event [MiB], None = the event does not state it."""
        return None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash((type(self), *_values(self)))

    def __repr__(self) -> str:
        pairs = zip(self.__match_args__, _values(self), strict=True)
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        """Return the event as a trace holds it. ``slot`` is included only with several slots. ``task`` is numbered
        within the step and included only if the step has several tasks."""
        out: dict[str, Any] = {"ev": self.ev}
        for name in self.__match_args__:
            value = getattr(self, name)
            if name == "slot" and (value is None or one_slot):
                continue
            if name == "task":
                if tasks is None or value not in tasks:
                    continue
                value = tasks[value]
            out[name] = value
        return out


def _values(event: Event) -> tuple[Any, ...]:
    return tuple(getattr(event, name) for name in event.__match_args__)


def mib(size: int) -> float:
    """Return bytes as a server prints them: MiB with three decimals."""
    return round(size / 1048576.0, 3)


def share(value: SupportsFloat) -> float:
    """Return a similarity as a server prints it: three decimals."""
    return round(float(value), 3)


@frozen
class SlotEvent(Event):
    """An event of a slot. ``task``: id of the slot's task, None without a task."""

    slot: int | None
    task: int | None


LOOKS = 128                  # looks at a stored object that take as long as a micro-batch


class Log:
    """Append-only list of events, divided into requests by ``mark``.

    ``listener`` receives every event as it happens, or only events of ``kinds``; None by default.
    ``before``: log of the preceding server; its counters continue. ``keeps_decisions`` False: nothing reads the
    decisions of this run, so that most are only counted (``log_decision``), nor, without a listener, its restore
    points.
    """

    def __init__(self, before: Log | None = None, keeps_decisions: bool = True) -> None:
        self.keeps_decisions = keeps_decisions
        self.n_not_kept = 0                          # number of decisions that were only counted
        self.spent: int = before.spent if before else 0
        self.passes: int = before.passes if before else 0
        self.exact: int = before.exact if before else 0
        self.sampled: int = before.sampled if before else 0
        self.looks: int = before.looks if before else 0
        self.events: list[Event] = []
        self.marks: list[int] = []
        self.listener: Callable[[Event], None] | None = None
        self.kinds: frozenset[type[Event]] = frozenset()

    @property
    def n_logged(self) -> int:
        """Number of events, with the decisions that were not kept."""
        return len(self.events) + self.n_not_kept

    @property
    def is_read(self) -> bool:
        """False if nothing reads events or restore points of this run: no listener, and decisions are only counted."""
        return self.listener is not None or self.keeps_decisions

    def listens_to(self, kind: type[Event]) -> bool:
        """True if the listener receives events of this kind."""
        return self.listener is not None and (not self.kinds or kind in self.kinds)

    def add_listener(self, listener: Callable[[Event], None]) -> None:
        """Pass every later event to ``listener``, too, after the present listener."""
        first, kinds = self.listener, self.kinds

        def pass_to_both(event: Event) -> None:
            if first is not None and (not kinds or type(event) in kinds):
                first(event)
            listener(event)

        self.listener, self.kinds = pass_to_both, frozenset()

    def emit(self, event: Event) -> None:
        """Append an event and pass it to the listener."""
        self.events.append(event)
        if self.listener is not None and (not self.kinds or type(event) in self.kinds):
            self.listener(event)

    def spend(self, tokens: int, passes: int, exact: int = 0) -> None:
        """Count tokens that are about to be evaluated, including generated tokens. Reused tokens are free. Raise
        BadInput if a limit of the run is exceeded."""
        self.spent, self.passes, self.exact = self.spent + tokens, self.passes + passes, self.exact + exact
        if self.spent > limits.NEW_TOKENS.now:
            raise limits.NEW_TOKENS.exceeded("the run evaluates and generates more tokens than it may")
        if self.passes > limits.PASSES.now:
            raise limits.PASSES.exceeded("the run takes more steps than it may")
        if self.exact > limits.EXACT_WORK.now:
            raise limits.EXACT_WORK.exceeded("the run does more exact arithmetic than it may")

    def look(self, number: int) -> None:
        """Count looks at stored objects: ``LOOKS`` of them take as long as a micro-batch. Raise BadInput if a limit of
        the run is exceeded."""
        self.looks += number
        if self.looks >= LOOKS:
            passes, self.looks = divmod(self.looks, LOOKS)
            self.spend(0, passes)

    def refund(self, tokens: int, passes: int, exact: int = 0) -> None:
        """Subtract tokens that were counted but not evaluated."""
        self.spent, self.passes, self.exact = self.spent - tokens, self.passes - passes, self.exact - exact

    def sample(self) -> None:
        """Count a token that the sampler is about to choose. Raise BadInput if the limit of the run is exceeded."""
        self.sampled += 1
        if self.sampled > limits.SAMPLED_TOKENS.now:
            raise limits.SAMPLED_TOKENS.exceeded("the run generates more tokens than it may")

    def mark(self) -> int:
        """Start the next request. Return its number, from 0."""
        self.marks.append(len(self.events))
        return len(self.marks) - 1

    def of(self, request: int) -> Iterator[Event]:
        """Return the events of a request, in order."""
        stop = self.marks[request + 1] if request + 1 < len(self.marks) else len(self.events)
        return iter(self.events[self.marks[request] : stop])

    def __repr__(self) -> str:
        return f"<Log of {len(self.marks)} steps: {len(self.events)} events>"
