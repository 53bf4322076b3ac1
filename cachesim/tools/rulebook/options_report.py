"""What can be asked of an engine's server? Its flags, models and request fields, as data and as text."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.contract import Engine
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.model.layer_kinds import KINDS
from cachesim.scenarios.option_checks import fields_of

KIND = {bool: "true or false", int: "integer", float: "number", str: "text"}
VALUE = {bool: "", int: " N", float: " X", str: " WORD"}


def options_data(engine: Engine, rules: RuleSet | None, flags: Iterable[Flag]) -> dict[str, Any]:
    """Flags with the defaults of the real server, those of a rule set where one is given; models; what a request and
    the steps of a line may say."""
    manual, own = engine.manual, {} if rules is None else rules.defaults
    return {
        "engine": engine.name, "profile": "" if rules is None else rules.name,
        "flags": [_flag(one, own.get(one.name, one.default)) for one in flags], "models": list(manual.models),
        "known": [{"name": name, **known._asdict()} for name, known in manual.known.items()],
        "request": [{"name": name, **said._asdict()} for name, said in fields_of(manual).items()],
    }  # fmt: skip


def _flag(flag: Flag, default: Option) -> dict[str, Any]:
    number = isinstance(flag.default, int | float) and not isinstance(flag.default, bool)
    return {
        "name": flag.name, "spellings": list(flag.spellings), "off": list(flag.off), "type": KIND[type(flag.default)],
        "default": default, "least": flag.least if number else None, "open": flag.open,
        "choices": list(flag.choices), "model": flag.model, "help": flag.help,
    }  # fmt: skip


def options_report(data: dict[str, Any], whole: bool = True) -> RenderableType:
    """A paragraph for each flag, then the models and what stands in a line."""
    named = data["profile"] or data["engine"]
    head = Text.assemble("server flags of ", (named, "bold"), ": as on its own command line, or --set NAME=VALUE")
    parts: list[RenderableType] = [head, *(part for flag in data["flags"] for part in _paragraph(flag))]
    if whole:
        known = ((k["name"], f"{k['layers']}. {k['real'][:1].upper()}{k['real'][1:]}.") for k in data["known"])
        layers = ", ".join(f"{kind.letter} {kind.words}" for kind in KINDS.values())
        parts += [Text("\nmodels (--model)", "bold"), _grid(known),
                  _indented(f"tiny ones with layers of their own: {', '.join(data['models']) or 'none'}"),
                  _indented(f"or layers, such as GGGA or W8 A: {layers}"),
                  Text("\nin a line, behind the words of a request", "bold"),
                  _grid((one["example"], one["help"]) for one in data["request"])]  # fmt: skip
    return Group(*parts)


def _paragraph(flag: dict[str, Any]) -> Sequence[RenderableType]:
    words = [*flag["spellings"], *flag["off"]]
    kind = next(one for one, name in KIND.items() if name == flag["type"])
    title = Text.assemble("  ", (", ".join(words) + VALUE[kind] if words else f"--set {flag['name']}=", "cyan"))
    default = flag["default"]
    shown = ("on" if default else "off") if isinstance(default, bool) else str(default) if default != "" else "none"
    facts = [f"{flag['name']}: default {shown}", *_range(flag)]
    return [title, _indented("; ".join(facts)), *([_indented(flag["help"])] if flag["help"] else [])]


def _range(flag: dict[str, Any]) -> list[str]:
    if flag["choices"]:
        return [f"one of {', '.join(flag['choices'])}"]
    if flag["type"] == KIND[float]:
        return ["0 to 1"]
    if flag["least"] is None:
        return []
    least = f"at least {flag['least']}"
    return [least if flag["open"] is None or flag["open"] >= flag["least"] else f"{least}, or {flag['open']}"]


def _indented(text: str) -> Padding:
    return Padding.indent(Text(text), 6)


def _grid(rows: Iterable[tuple[str, str]]) -> RenderableType:
    """Names with what they mean."""
    table = Table.grid(Column(no_wrap=True), padding=(0, 1))
    for name, text in rows:
        table.add_row(Text(f" {name}", "cyan"), Text(text))
    return table
