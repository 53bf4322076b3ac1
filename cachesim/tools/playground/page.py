"""Page of the playground: its frame with styles and script, and the choices that it offers."""

from __future__ import annotations

import json
from contextlib import suppress
from string import Template
from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.base.errors import BadInput, cut
from cachesim.base.escaping import shell_word
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine
from cachesim.engines.registry import ENGINES, profiles
from cachesim.judging.reproduce_command import flag_text, line_words
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load_each
from cachesim.scenarios.option_checks import fields_of, manual_of, spoken
from cachesim.scenarios.schema import Scenario
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.timeline import script, style

FIRST = "llama-24143-entry-removed-hybrid"
"""Id of the scenario that the page opens with."""


class Page(NamedTuple):
    """Page as text. ``inline``: its script and its style, which the policy of the server allows."""

    text: str
    inline: tuple[str, str]


def make_page() -> Page:
    """Return the page, with the scenarios that a line can express as examples."""
    mine, look = f"{script()}\n{asset(__file__, 'playground.js')}", f"{style()}\n{asset(__file__, 'page.css')}"
    choices = {"first": FIRST, "engines": {name: _offers(engine) for name, engine in ENGINES.items()},
               "examples": {example["id"]: example for example in _examples()}}  # fmt: skip
    data = json.dumps(choices).replace("<", "\\u003c")
    text = Template(asset(__file__, "page.html")).substitute(style=look, script=mine, choices=data)
    return Page(text, (mine, look))


def _offers(engine: Engine) -> Mapping[str, Any]:
    """Return the rule sets of an engine, newest first, its models, and help on its notation and flags."""
    manual = engine.manual
    newest = [engine.newest, *reversed(engine.line), *engine.profiles]
    return {
        "profiles": list(dict.fromkeys(name for name in newest if name)),
        "models": list(dict.fromkeys((*manual.known, *manual.models))),
        "notation": [[one.example, one.help] for one in fields_of(manual).values()],
        "flags": [[" ".join(flag.spellings[:2]) or flag.name, flag.help] for flag in manual.flags],
    }


def _examples() -> Iterator[Mapping[str, Any]]:
    """Yield the bundled scenarios that a line expresses: the fields of the page."""
    for found in load_each(corpus_files().values(), profiles().keys()):
        if isinstance(found, Scenario) and not found.rules and not getattr(found.words, "spelled", None):
            with suppress(BadInput):
                line = line_words(found, found.profiles[0])[0]
                yield {"id": found.id, "title": cut(found.title, 100), "line": line, "model": found.model,
                       "flags": flags_text(found.server, found.engine), "profiles": _compared(found)}  # fmt: skip


def flags_text(server: Mapping[str, Option], engine: str) -> str:
    """Return the options of a server in its own spelling, as ``read_flags`` reads them."""
    manual, given = manual_of(engine), spoken(server, engine)
    texts = [(flag.name, flag_text(flag, given[flag.name], {})) for flag in manual.flags if flag.name in given]
    return " ".join(shell_word(text) if text.startswith(f"{name}=") and " " in text else text for name, text in texts)


def _compared(scenario: Scenario) -> list[str]:
    """Return the first rule set of a scenario, and the last that it expects to give another result."""
    first, *others = scenario.profiles
    expected = {name: (found.cache_n, found.broken) for name, found in scenario.expect.items()}
    others = [name for name in others if expected.get(name) != expected.get(first)]
    return [first, *others[-1:]]
