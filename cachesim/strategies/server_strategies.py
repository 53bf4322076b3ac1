"""Strategies of models, servers, rule sets, and conversations on a server under a rule set."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Mapping, Sequence

from hypothesis import reject
from hypothesis import strategies as st

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.contract import Engine
from cachesim.engines.registry import DEFAULT, ENGINES
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.model.hash_mixing import Rng
from cachesim.strategies.argument_checks import BadArgument, check_count, check_engine, check_models, check_names
from cachesim.strategies.conversation_strategies import LONGEST_PROMPT, SERVER_STEPS, draw_for_server
from cachesim.strategies.drawn_values import ServerCase, ServerSetup
from cachesim.strategies.line_reduction import NUMBERS, note_again
from cachesim.tools.search.drawn_conversation import small_models

LETTERS = "AWKGSCH"
"""Kinds of layers that drawn models have: attention, windows, chunks, and the recurrent kinds."""


def models(engine: str | None = None, *, layers: str = LETTERS) -> st.SearchStrategy[str]:
    """Return a strategy of small models (``"GA"``, ``"W8 A"``), those with the fewest layers first.

    ``engine``: only models that ``cachesim fuzz`` draws for it, otherwise those of every engine; ``layers``: the kinds
    that a model may have, letters of ``LETTERS``. Raise BadArgument, also if no model has only such layers.
    """
    engines = [check_engine(engine)] if engine is not None else list(ENGINES.values())
    allowed = check_names("layers", list(layers) if isinstance(layers, str) else layers, tuple(LETTERS))
    known = dict.fromkeys(model for one in engines for model in small_models(one.manual))
    found = [model for model in known if layers == LETTERS or _layers(model) <= allowed]
    if not found:
        raise BadArgument(f"layers: no drawn model has only layers of {quoted(layers)}", hint=", ".join(known))
    return st.sampled_from(sorted(found, key=lambda model: (len(model), model)))


def _layers(model: str) -> set[str]:
    """Return the kinds of a model's layers; of a named model, which is not written in layers, its name."""
    return {model} if any(letter.islower() for letter in model) else {letter for letter in model if letter.isalpha()}


def servers(engine: str = DEFAULT.name, *, models: Sequence[str] = ()) -> st.SearchStrategy[ServerSetup]:
    """Return a strategy of servers of an engine: a model, and options as ``cachesim fuzz`` draws them, few of them at
    best. ``models``: those to draw from, by default all that ``cachesim fuzz`` draws. Raise BadArgument."""
    manual = check_engine(engine).manual
    known = check_models(models, engine) if models else manual.drawn
    return _servers(engine, st.sampled_from(known if models else sorted(known, key=lambda name: (len(name), name))))


@st.composite
def _servers(draw: st.DrawFn, engine: str, known: st.SearchStrategy[str]) -> ServerSetup:
    model, numbers = draw(known), draw(NUMBERS)
    drawn = ENGINES[engine].manual.draw(Rng(numbers.integer(), "strategies", engine), model)
    return ServerSetup(drawn, numbers.names(list(drawn.server)))


def rule_sets(
    engine: str = DEFAULT.name, *, names: Sequence[str] = (), changes: Mapping[str, Sequence[Any]] | None = None
) -> st.SearchStrategy[RuleSet]:
    """Return a strategy of rule sets of an engine, the newest first.

    ``names``: those to draw from, by default the main branch; ``changes``: for fields of the table, rules or numbers to
    draw in place of the table's own. A changed table is named after the fields that differ
    (``llama_cpp@b11549+ckpt_pick``). Raise BadArgument.
    """
    known = check_engine(engine)
    tables = _tables(known, names)
    for field, values in (changes or {}).items():
        if field not in tables[0].fields():
            hint = nearest(field, tables[0].fields())
            raise BadArgument(f"changes: {engine} has no field {quoted(field)}", hint=hint)
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise BadArgument(f"changes: expected a list of rules or numbers for {field}, found {quoted(values)}")
    if not changes:
        return st.sampled_from(tables)
    drawn_values = st.tuples(*(st.sampled_from([None, *((value,) for value in given)]) for given in changes.values()))
    drawn = drawn_values.map(lambda found: dict(zip(changes, found, strict=True)))
    return st.builds(_changed, st.sampled_from(tables), drawn)


def _tables(engine: Engine, names: Sequence[str]) -> list[RuleSet]:
    if isinstance(names, str):
        raise BadArgument(f"names: expected a list of rule sets, found {quoted(names)}")
    try:
        return [engine.rules(name) for name in names or [*reversed(engine.line)] or [*engine.profiles]]
    except BadInput as bad:
        raise BadArgument(f"names: {bad.cause}", hint=bad.hint) from None


def _changed(table: RuleSet, drawn: Mapping[str, tuple[Any] | None]) -> RuleSet:
    changes = {field: value[0] for field, value in drawn.items() if value is not None}
    changed = replace(table, name="+".join([table.name, *changes]), **changes) if changes else table
    return changed


def workloads(
    engine: str = DEFAULT.name, *, rules: RuleSet | st.SearchStrategy[RuleSet] | None = None,
    server: ServerSetup | st.SearchStrategy[ServerSetup] | None = None,
    max_requests: int = SERVER_STEPS, max_prompt: int = LONGEST_PROMPT,
) -> st.SearchStrategy[ServerCase]:  # fmt: skip
    """Return a strategy of cases: a conversation on a server under a rule set, which ``ServerCase.judge`` runs.

    ``rules``: a table or a strategy of tables, by default the newest recorded one; ``server``: a server or a strategy
    of servers, by default ``servers(engine)``; ``max_requests``: 1 to 9 steps; ``max_prompt`` [tokens]. Cases that the
    rule set does not support are not drawn. A failing test prints the command that runs its case again. Raise
    BadArgument.
    """
    known = check_engine(engine)
    newest = known.profiles[known.newest or known.line[-1]]
    tables = _strategy("rules", newest if rules is None else rules, RuleSet)
    setups = _strategy("server", servers(engine) if server is None else server, ServerSetup)
    most = check_count("max_requests", max_requests, 1, SERVER_STEPS)
    return _cases(engine, tables, setups, most, check_count("max_prompt", max_prompt, 2, LONGEST_PROMPT))


def _strategy(name: str, value: Any, kind: type) -> st.SearchStrategy[Any]:
    """Return a strategy of a value, or the value itself if it is a strategy. Raise BadArgument."""
    if isinstance(value, st.SearchStrategy):
        return value
    if not isinstance(value, kind):
        raise BadArgument(f"{name}: expected a {kind.__name__} or a strategy of them, found {type(value).__name__}")
    return st.just(value)


@st.composite
def _cases(
    draw: st.DrawFn, engine: str, tables: st.SearchStrategy[RuleSet], setups: st.SearchStrategy[ServerSetup],
    max_requests: int, max_prompt: int,
) -> ServerCase:  # fmt: skip
    rules, setup = draw(tables), draw(setups)
    if {engine} != {rules.name.partition("@")[0], setup.engine}:
        raise BadArgument(f"workloads of {engine}: found rules {quoted(rules.name)} and a server of {setup.engine}")
    with suppress(BadInput):
        ENGINES[engine].start(rules, setup.model, setup.options, "none")
        found = ServerCase(rules, setup, draw_for_server(draw(NUMBERS), setup, max_requests, max_prompt))
        note_again(lambda: f"again: {found.command}")
        return found
    reject()
