"""Command ``cachesim profiles list | show NAME | diff A B``: list, show and compare rule sets."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Mapping

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput, counted, nearest, quoted
from cachesim.tools.run.arguments import add_json, add_profiles, profile_name

if TYPE_CHECKING:
    from cachesim.engines.shared.rule_set import RuleSet

NAMES = {"list": 0, "show": 1, "diff": 2}
"""Number of profiles that each action takes."""
ABOUT = ("name", "build", "source", "inferred", "ended")
"""Descriptive fields of a profile, without effect on decisions."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="list|show|diff", help="list all profiles, show one, or compare two")
    parser.add_argument("names", metavar="NAME", nargs="*", type=profile_name,
                        help="profiles, or Python files of rules: 0 for list, 1 for show, 2 for diff")  # fmt: skip
    add_profiles(parser, "additional Python file of rules, may be repeated")
    add_json(parser)


def run(args: Namespace) -> int:
    if args.action not in NAMES:
        hint = nearest(args.action, NAMES) or "list, show or diff"
        raise BadInput(f"unknown action {quoted(args.action)}", hint=hint)
    if len(args.names) != NAMES[args.action]:
        raise BadInput(f"profiles {args.action} takes {counted(NAMES[args.action], 'name')}, not {len(args.names)}")
    from cachesim.engines.registry import near_profile, profiles

    known = profiles()
    for name in args.names:
        if name not in known:
            raise BadInput(f"unknown profile {quoted(name)}", hint=near_profile(name, known))
    if args.action == "list":
        _list(known, as_json=args.json)
    elif args.action == "show":
        _show(known[args.names[0]], as_json=args.json)
    else:
        _diff(args.names[0], args.names[1], as_json=args.json)
    return exits.HOLDS


def _rules(profile: str) -> dict[str, Any]:
    """Return the rules (as ids) and numbers of a profile by field."""
    from cachesim.engines.registry import rules_of

    return {name: getattr(value, "rule", _plain(value)) for name, value in rules_of(profile).fields().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return sorted(value) if isinstance(value, frozenset) else value


def _list(known: Mapping[str, RuleSet], *, as_json: bool) -> None:
    from cachesim.engines.build_names import in_force
    from cachesim.engines.registry import engine_of, latest, notes
    from cachesim.tools.rulebook.rules_report import list_report

    told = notes()
    spans = {name: in_force(engine_of(name), name) for name in known}
    if as_json:
        rows = [{"name": n, "build": r.build, "source": r.source, "in_force": list(spans[n]),
                 **({"note": told[n]} if n in told else {})} for n, r in known.items()]  # fmt: skip
        say_json({"profiles": rows, "latest": dict(latest())})
    else:
        show(list_report(known, latest(), told, spans))


def _show(rules: RuleSet, *, as_json: bool) -> None:
    from cachesim.engines.build_names import life_in
    from cachesim.engines.registry import notes
    from cachesim.scenarios.real_builds import counts_on
    from cachesim.tools.rulebook.rules_report import rule_data, rule_report, tables

    every = tables()
    if as_json:
        say_json(_rules(rules.name))
        return
    show(f"{rules.name}  {rules.build}  {rules.source}\n")
    if rules.name in notes():
        show(f"{notes()[rules.name]}\n")
    if counts := counts_on(rules.name.partition("@")[2]):
        numbers = ", ".join(f"{number} {state.replace('-', ' ')}" for state, number in counts.items())
        show(f"scenarios on the real build: {numbers}\n")
    for name, value in rules.fields().items():
        if callable(value) and hasattr(value, "rule"):
            mark = "   (inferred: never observed)" if name in rules.inferred else ""
            when = life_in(rules.name, value).get(name, "")
            show(f"\n-- {name}{mark}{when and f'   {when}'}", rule_report(rule_data(value.rule, value, every)))


def _diff(name_a: str, name_b: str, *, as_json: bool) -> None:
    from cachesim.engines.registry import engine_of
    from cachesim.tools.rulebook.rules_report import differences_report

    if engine_of(name_a) is not engine_of(name_b):
        raise BadInput("profiles diff compares two profiles of one engine")
    a = _rules(name_a)
    b = _rules(name_b)
    rows = [(k, a[k], b[k]) for k in a if a[k] != b[k] and k not in ABOUT]
    if as_json:
        say_json({"a": name_a, "b": name_b, "fields": [{"field": k, "a": x, "b": y} for k, x, y in rows]})
    else:
        show(differences_report(name_a, name_b, rows))
