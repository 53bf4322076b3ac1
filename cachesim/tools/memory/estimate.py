"""Memory of a server for a model under a rule set, and the flags that lower it."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.shared.flags import check_flags
from cachesim.engines.shared.memory_use import MIB, MemoryForms, MemoryQuestion, MemoryUse
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.model.layer_kinds import KINDS
from cachesim.scenarios.option_checks import in_force, parse_settings, refuses


class Lowered(NamedTuple):
    """A smaller value of an option, and the memory with it. ``fits``: None without a limit."""

    option: str
    before: Option
    after: Option
    total: int
    fits: bool | None


class MemoryEstimate(NamedTuple):
    """Memory of a server. ``given``: its options; ``lower``: smaller values of options, each alone, the best first;
    ``together``: values that fit if none fits alone; ``most``: the largest context that fits [tokens], 0 = not asked
    for."""

    engine: Engine
    rules: RuleSet
    given: Mapping[str, Option]
    use: MemoryUse
    lower: Sequence[Lowered] = ()
    together: Sequence[Lowered] = ()
    most: int = 0


def estimate(
    profile: str, model: RealModel, settings: Sequence[str], room: int, tokens: int, draft: RealModel | None = None,
) -> MemoryEstimate:
    """Return the memory of a server with these options. ``room``: memory for its caches [bytes], 0 = any. Raise
    BadInput."""
    engine, rules = engine_of(profile), rules_of(profile)
    forms = engine.memory()
    if forms is None:
        raise BadInput(f"the sizes of {engine.name}'s caches are not known")
    kinds = {one.kind for one in model.layers if one.kind and one.kind not in forms.kinds}
    if other := next((one for one in sorted(kinds) if refuses(engine.manual, one)), ""):
        raise BadInput(f"{engine.name}: the memory of {KINDS[other].words} is not known")
    given = _given(settings, engine, forms)
    defaults = {flag.name: flag.default for flag in forms.flags}
    _check_room(engine, forms, given, room)
    ask = MemoryQuestion(model, {**defaults, **in_force(given, profile)}, rules, room, tokens, draft)
    found = MemoryEstimate(engine, rules, given, forms.use(ask))
    if room and not _exceeds(found.use, room):
        context = engine.manual.context
        return found._replace(most=_largest_context(ask, forms, found.use, context.name) if context else 0)
    search = LowerSearch(ask, forms, engine.manual.defaults)
    lower = search.each(found.use)
    alone = not room or any(one.fits for one in lower)
    return found._replace(lower=lower, together=() if alone else search.together(found.use))


def _check_room(engine: Engine, forms: MemoryForms, given: Mapping[str, Option], room: int) -> None:
    """Raise BadInput for a server that fills the memory it gets, if neither that memory nor a size is given."""
    filled = forms.agents.filled if forms.agents else ()
    if forms.agents and filled and not room and not given.keys() & {*filled, *forms.agents.stated}:
        flags = [next((word for word in flag.spellings if word.startswith("--")), flag.name)
                 for flag in engine.manual.flags if flag.name in filled]  # fmt: skip
        raise BadInput(f"{engine.name} fills the memory that it gets: its size is not given",
                       hint=f"--memory 32GiB, or {' or '.join(flags)} N")  # fmt: skip


def _exceeds(use: MemoryUse, room: int) -> bool:
    return use.total > room or bool(use.unlimited)


def _given(settings: Sequence[str], engine: Engine, forms: MemoryForms) -> dict[str, Option]:
    """Return the options of ``--set`` arguments, those that change only sizes among them. Raise BadInput."""
    known = {flag.name: flag for flag in forms.flags}
    others, found = [], dict[str, Option]()
    for pair in settings:
        name, _, text = pair.partition("=")
        if name not in known:
            others.append(pair)
            continue
        try:
            found[name] = type(known[name].default)(text)
        except ValueError:
            raise BadInput(f"{name}: expected a number, found {text[:80]!r}") from None
    check_flags(found, forms.flags)
    return {**parse_settings(others, engine.name), **found}


class LowerSearch(NamedTuple):
    """Search for smaller values of the options. ``defaults``: of the server."""

    ask: MemoryQuestion
    forms: MemoryForms
    defaults: Mapping[str, Option]

    def each(self, use: MemoryUse) -> list[Lowered]:
        """Return a smaller value for each option that saves memory. With a limit: the largest value that fits; those
        that fit come first, in the order of their cost, the others by their total. Without a limit: half the value,
        the largest saving first. An option that leaves a part without limit comes first."""
        found = [self.lower(option, use) for option in self.forms.lower]
        good = [one for one in found if one is not None and (one.total < use.total or one.option == use.unlimited)]
        return sorted(good, key=lambda one: (one.option != use.unlimited and not one.fits, not one.fits and one.total))

    def together(self, use: MemoryUse) -> list[Lowered]:
        """Return values of several options that fit together, in the order of their cost; [] if none do."""
        search, found = self, list[Lowered]()
        for option in self.forms.lower:
            one = search.lower(option, use)
            if one is None or (one.total >= use.total and option != use.unlimited):
                continue
            found.append(one)
            if one.fits:
                return found
            search = search._replace(ask=search._with(option, one.after))
            use = self.forms.use(search.ask)
        return []

    def lower(self, option: str, use: MemoryUse) -> Lowered | None:
        """Return a smaller value of an option, None if there is none."""
        room = self.ask.room
        before = use.chosen.get(option, self.ask.options[option])
        after: Option | None
        if option != use.unlimited:
            after = self._smaller(option, before)
        elif room:
            after = self._smaller(option, max(1, room // MIB))
        else:
            after = self.defaults[option]
        if after is None:
            return None
        changed = self._use(option, after)
        if changed is None:
            return None
        return Lowered(option, before, after, changed.total, not _exceeds(changed, room) if room else None)

    def _smaller(self, option: str, now: Any) -> Option | None:
        bounds, room = self.forms.lower[option], self.ask.room
        if type(now) is not int:
            worse = [value for value in bounds if value != now and self._use(option, value)]
            fitting = [value for value in worse if room and self._fits(option, value)]
            return next(iter(fitting or worse[-1 if room else 0 :]), None)
        step, least = int(bounds[0]), int(bounds[1])
        steps = (now - 1 - least) // step
        if steps < 0:
            return None
        if not room:
            return least + step * ((now - least) // (2 * step))
        return least + step * max(0, _count(steps, lambda n: self._fits(option, least + step * n)) - 1)

    def _with(self, option: str, value: Option) -> MemoryQuestion:
        return self.ask._replace(options={**self.ask.options, option: value})

    def _fits(self, option: str, value: Option) -> bool:
        changed = self._use(option, value)
        return changed is not None and not _exceeds(changed, self.ask.room)

    def _use(self, option: str, value: Option) -> MemoryUse | None:
        """Return the memory with another value of an option, None if no server of this model starts with it."""
        try:
            return self.forms.use(self._with(option, value))
        except BadInput:
            return None


def _largest_context(ask: MemoryQuestion, forms: MemoryForms, use: MemoryUse, option: str) -> int:
    """Return the largest context that fits, at most that of the model, at least the present one [tokens]. ``option``:
    the server's option for it."""
    now, step = use.chosen[option], int(forms.lower[option][0])
    search = LowerSearch(ask, forms, {})
    more = max(0, ask.model.context - now) // step
    return now + step * max(0, _count(more, lambda n: search._fits(option, now + step * n)) - 1)


def _count(most: int, holds: Callable[[int], bool]) -> int:
    """Return how many of the numbers 0 .. most have a property that holds up to some number."""
    return bisect_right(range(most + 1), False, key=lambda n: not holds(n))
