"""Report of ``options``: flags, models and request fields of an engine's server, as data and as text."""

from __future__ import annotations

from typing import Any, Container, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.contract import Engine
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.model.layer_kinds import KINDS
from cachesim.scenarios.option_checks import fields_of, known_models

KIND = {bool: "true or false", int: "integer", float: "number", str: "text"}
VALUE = {bool: "", int: " N", float: " X", str: " WORD"}


def options_data(engine: Engine, rules: RuleSet | None, flags: Iterable[Flag]) -> dict[str, Any]:
    """Return flags with their defaults (of the newest server, or of ``rules``), models, request fields and steps. A
    flag has the spellings of the release of ``rules``."""
    manual, own = engine.manual, {} if rules is None else rules.defaults
    spelled = {} if rules is None else engine.command_table.of_release(rules.name)
    return {
        "engine": engine.name, "profile": "" if rules is None else rules.name,
        "flags": [_flag(flag, own.get(flag.name, flag.default), spelled) for flag in flags],
        "models": list(manual.models),
        "known": [{"name": name, **known._asdict()} for name, known in known_models(manual).items()],
        "request": [{"name": name, **field._asdict()} for name, field in fields_of(manual).items()],
    }  # fmt: skip


def _flag(flag: Flag, default: Option, spelled: Container[str]) -> dict[str, Any]:
    spellings = [one for one in flag.spellings if one in spelled] or list(flag.spellings)
    number = isinstance(flag.default, int | float) and not isinstance(flag.default, bool)
    return {
        "name": flag.name, "spellings": spellings, "off": list(flag.off), "type": KIND[type(flag.default)],
        "default": default, "least": flag.least if number else None, "open": flag.open,
        "most": flag.most if type(flag.default) is float else None,
        "choices": list(flag.choices), "model": flag.model, "help": flag.help,
    }  # fmt: skip


def options_report(data: dict[str, Any], whole: bool = True) -> RenderableType:
    """Return a paragraph per flag; with ``whole`` also the models and the request fields of the notation."""
    named = data["profile"] or data["engine"]
    head = Text.assemble("server flags of ", (named, "bold"), ": as on its own command line, or --set NAME=VALUE")
    parts: list[RenderableType] = [head, *(part for flag in data["flags"] for part in _paragraph(flag))]
    if whole:
        known = ((k["name"], _known(k)) for k in data["known"])
        layers = ", ".join(f"{kind.letter} {kind.words}" for kind in KINDS.values())
        parts += [Text("\nmodels (--model)", "bold"), _grid(known),
                  _indented(f"tiny ones with layers of their own: {', '.join(data['models']) or 'none'}"),
                  _indented(f"or layers, such as GGGA or W8 A: {layers}"),
                  Text("\nin a line, after the words of a request", "bold"),
                  _grid((field["example"], field["help"]) for field in data["request"])]  # fmt: skip
    return Group(*parts)


def _known(model: dict[str, Any]) -> str:
    """Return the layers of a real model, with the names that were not verified."""
    text = f"{model['layers']}. {model['real'][:1].upper()}{model['real'][1:]}."
    return text + (f" Not verified: {', '.join(model['unverified'])}." if model["unverified"] else "")


def _paragraph(flag: dict[str, Any]) -> Sequence[RenderableType]:
    words = [*flag["spellings"], *flag["off"]]
    kind = next(kind for kind, name in KIND.items() if name == flag["type"])
    title = Text.assemble("  ", (", ".join(words) + VALUE[kind] if words else f"--set {flag['name']}=", "cyan"))
    default = flag["default"]
    shown = ("on" if default else "off") if isinstance(default, bool) else str(default) if default != "" else "none"
    facts = [f"{flag['name']}: default {shown}", *_range(flag)]
    return [title, _indented("; ".join(facts)), *([_indented(flag["help"])] if flag["help"] else [])]


def _range(flag: dict[str, Any]) -> list[str]:
    if flag["choices"]:
        return [f"one of {', '.join(filter(None, flag['choices']))}"]
    if flag["type"] == KIND[float]:
        return [f"0 to {flag['most']}"]
    if flag["least"] is None:
        return []
    least = f"at least {flag['least']}"
    return [least if flag["open"] is None or flag["open"] >= flag["least"] else f"{least}, or {flag['open']}"]


def _indented(text: str) -> Padding:
    return Padding.indent(Text(text), 6)


def _grid(rows: Iterable[tuple[str, str]]) -> RenderableType:
    """Return a table of names and explanations."""
    table = Table.grid(Column(no_wrap=True), padding=(0, 1))
    for name, text in rows:
        table.add_row(Text(f" {name}", "cyan"), Text(text))
    return table
