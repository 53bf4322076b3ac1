"""What can be asked of an engine's server? Its flags, models and request fields, as data and as text."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cachesim.engines.contract import Engine
from cachesim.engines.manual import Flag, Option
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
        "engine": engine.name,
        "profile": "" if rules is None else rules.name,
        "flags": [_flag(one, own.get(one.name, one.default)) for one in flags],
        "models": list(manual.models),
        "known": [{"name": name, **known._asdict()} for name, known in manual.known.items()],
        "request": [{"name": name, **said._asdict()} for name, said in fields_of(manual).items()],
    }


def _flag(flag: Flag, default: Option) -> dict[str, Any]:
    number = isinstance(flag.default, int | float) and not isinstance(flag.default, bool)
    return {
        "name": flag.name,
        "spellings": list(flag.spellings),
        "off": list(flag.off),
        "type": KIND[type(flag.default)],
        "default": default,
        "least": flag.least if number else None,
        "open": flag.open,
        "choices": list(flag.choices),
        "model": flag.model,
        "help": flag.help,
    }


def options_report(data: dict[str, Any], whole: bool = True) -> RenderableType:
    """A paragraph for each flag, then the models and what stands in a line."""
    named = data["profile"] or data["engine"]
    parts: list[RenderableType] = [Text.assemble("server flags of ", (named, "bold"), ": as on its own command line, ",
                                                 "or --set NAME=VALUE")]  # fmt: skip
    parts += [part for flag in data["flags"] for part in _paragraph(flag)]
    if whole:
        parts += [Text("\nmodels (--model)", "bold"), _known(data["known"]),
                  _indented(f"tiny ones with layers of their own: {', '.join(data['models']) or 'none'}"),
                  _indented("or layers, such as GGGA or W8 A: "
                            + ", ".join(f"{kind.letter} {kind.words}" for kind in KINDS.values())),
                  Text("\nin a line, behind the words of a request", "bold"), _said(data["request"])]  # fmt: skip
    return Group(*parts)


def _paragraph(flag: dict[str, Any]) -> Sequence[RenderableType]:
    words = [*flag["spellings"], *flag["off"]]
    kind = next(one for one, name in KIND.items() if name == flag["type"])
    title = Text.assemble("  ", (", ".join(words) + VALUE[kind] if words else f"--set {flag['name']}=", "cyan"))
    facts = [f"{flag['name']}: default {_default(flag)}", *_range(flag)]
    return [title, _indented("; ".join(facts)), *([_indented(flag["help"])] if flag["help"] else [])]


def _default(flag: dict[str, Any]) -> str:
    value = flag["default"]
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if value != "" else "none"


def _range(flag: dict[str, Any]) -> list[str]:
    found = []
    if flag["choices"]:
        found.append(f"one of {', '.join(flag['choices'])}")
    elif flag["type"] == KIND[float]:
        found.append("0 to 1")
    elif flag["least"] is not None:
        least = f"at least {flag['least']}"
        found.append(least if flag["open"] is None or flag["open"] >= flag["least"] else f"{least}, or {flag['open']}")
    return found


def _indented(text: str) -> Padding:
    return Padding.indent(Text(text), 6)


def _known(rows: Sequence[dict[str, Any]]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    for row in rows:
        real = row["real"][:1].upper() + row["real"][1:]
        table.add_row(Text(f" {row['name']}", "cyan"), Text(f"{row['layers']}. {real}."))
    return table


def _said(rows: Sequence[dict[str, Any]]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    for row in rows:
        table.add_row(Text(f" {row['example']}", "cyan"), Text(row["help"]))
    return table
