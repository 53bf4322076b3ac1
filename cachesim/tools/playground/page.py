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
from cachesim.scenarios.symptoms import SYMPTOMS
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.timeline import script, style

FIRST = "S40.A60>r4/B70/S.C25/S.A.D12"
"""The conversation that the page opens with."""
FIRST_MODEL = "GGGA"
MOST_TRIED = 3
"""Values of a flag that "what if" offers, at most."""


class Page(NamedTuple):
    """Page as text. ``inline``: its script and its style, which the policy of the server allows."""

    text: str
    inline: tuple[str, str]


def make_page() -> Page:
    """Return the page, with the scenarios that a line can express as examples."""
    mine, look = f"{script()}\n{asset(__file__, 'playground.js')}", f"{style()}\n{asset(__file__, 'page.css')}"
    engines = {name: _offers(engine) for name, engine in ENGINES.items()}
    choices = {
        "first": _first_case(engines),
        "symptoms": {name: symptom.text for name, symptom in SYMPTOMS.items()},
        "engines": engines,
        "examples": {example["id"]: example for example in _examples()},
    }
    data = json.dumps(choices).replace("<", "\\u003c")
    text = Template(asset(__file__, "page.html")).substitute(style=look, script=mine, choices=data)
    return Page(text, (mine, look))


def _first_case(engines: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the fields of the case that the page opens with, under the newest rule set of every engine."""
    newest = [engine["profiles"][0] for engine in engines.values()]
    return {"line": FIRST, "model": FIRST_MODEL, "flags": "", "profiles": newest}


def _offers(engine: Engine) -> Mapping[str, Any]:
    """Return the rule sets of an engine, newest first, its models, and help on its notation and flags."""
    manual = engine.manual
    newest = [engine.newest, *reversed(engine.line), *engine.profiles]
    return {
        "profiles": list(dict.fromkeys(name for name in newest if name)),
        "models": list(dict.fromkeys((*manual.known, *manual.models))),
        "notation": [[one.example, one.help] for one in fields_of(manual).values()],
        "what_if": [*_what_if(engine)],
        "flags": [[" ".join(flag.spellings[:2]) or flag.name, flag.help] for flag in manual.flags],
    }


def _what_if(engine: Engine) -> Iterator[str]:
    """Yield flags with a value that is worth a trial, as the server spells them."""
    for flag in engine.manual.flags:
        for value in flag.tries[:MOST_TRIED]:
            if value != flag.default:
                yield flag_text(flag, value, {})


def _examples() -> Iterator[Mapping[str, Any]]:
    """Yield the bundled scenarios that a line expresses: the fields of the page."""
    for found in load_each(corpus_files().values(), profiles().keys()):
        if isinstance(found, Scenario) and not found.rules and not getattr(found.words, "spelled", None):
            with suppress(BadInput):
                line = line_words(found, found.profiles[0])[0]
                yield {
                    "id": found.id,
                    "title": cut(found.title, 100),
                    "symptom": found.symptom,
                    "line": line,
                    "model": found.model,
                    "flags": flags_text(found.server, found.engine),
                    "profiles": _compared(found),
                }


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
