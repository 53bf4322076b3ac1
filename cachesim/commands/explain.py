"""``cachesim explain RULE``: what does this rule decide, and where is it in the real engine's source?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.commands import exits
from cachesim.commands.common import add_json, add_profiles
from cachesim.errors import BadInput, nearest, quoted
from cachesim.reports.console import complain, say_json, show


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE",
                        help="id of a rule, or the beginning of several ids")  # fmt: skip
    add_profiles(parser, "Python file of rules that is to be known too, may be repeated")
    add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.engines.registry import old_rule_ids, profiles
    from cachesim.engines.rule import RULES
    from cachesim.reports.rules_report import rule_data, rule_report

    used = {profile: list(rules.fields().values()) for profile, rules in profiles().items()}
    family, dot, variant = args.rule.partition(".")
    rule = f"{old_rule_ids().get(family, family)}{dot}{variant}"
    if rule != args.rule:
        complain(f"{args.rule} is called {rule} now")
    names = [name for name in RULES if name == rule or name.startswith((f"{rule}.", f"{rule}-"))]
    if not names:
        families = {name.split(".")[0] for name in RULES}
        near = nearest(rule, [*sorted(families), *RULES]) or "see cachesim profiles show"
        raise BadInput(f"unknown rule {quoted(rule)}", hint=near)
    found = [
        rule_data(name, RULES[name], [profile for profile, values in used.items() if RULES[name] in values])
        for name in names
    ]
    if args.json:
        say_json({"rules": found})
    else:
        show(*(rule_report(data) for data in found))
    return exits.HOLDS
