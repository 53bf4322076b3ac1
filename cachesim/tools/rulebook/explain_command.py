"""Command ``cachesim explain X``: explain a rule, a family of rules, a term or log lines, or list related entries."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import Any

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput, cut, quoted
from cachesim.base.progress_bar import LateBar
from cachesim.base.untrusted_files import argument_path, path_of
from cachesim.tools.run.arguments import add_json, add_profiles


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="X",
                        help="rule id or its beginning, term such as pos_min, lines of a server log or their "
                             "beginning, log file, - (standard input), or any words")  # fmt: skip
    add_profiles(parser, "additional Python file of rules, may be repeated")
    add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.tools.rulebook.explain_report import explain_report

    data = _explained(args.what, in_full=args.json)
    if args.json:
        say_json(data)
    else:
        show(*explain_report(data))
    return exits.HOLDS


def _explained(what: str, *, in_full: bool) -> dict[str, Any]:
    """Return the explanation of X by the first successful lookup; ``found`` names it. ``in_full``: with all that is
    known about each of several rules, of which the text prints the ids and descriptions. Raise BadInput if all fail."""
    from cachesim.tools.rulebook.glossary import find

    if (term := find(what)) is not None:             # first: the glossary needs no engine
        return {"found": "term", "term": {"name": term.name, "also": list(term.also), "text": term.text}}
    if what == "-" or os.path.isfile(what):
        from cachesim.tools.server_logs.lines.explanations import explain_log

        with LateBar("reading"):
            return {"found": "log", "log": explain_log(argument_path(what))}
    if len(what.splitlines()) < 2:
        return _explained_line(what, in_full=in_full)
    from cachesim.tools.server_logs.lines.explanations import explain_text

    return {"found": "log", "log": explain_text(what)}


def _explained_line(what: str, *, in_full: bool) -> dict[str, Any]:
    """Return the explanation of a rule, of a line or its beginning, or of words."""
    from cachesim.scenarios.load import has_form_of_path, neighbour
    from cachesim.tools.rulebook import rule_search as search
    from cachesim.tools.server_logs.lines import explanations as lines

    if rules := search.rules_named(what):
        if len(rules) == 1:
            return {"found": "rule", "rules": search.about_rules(rules)}
        return {"found": "rules", "rules": search.about_rules(rules) if in_full else search.rules_in_short(rules)}
    if (joined := lines.explain_joined(what)) is not None:
        return {"found": "log", "log": joined}
    if (line := lines.explain_line(what) or lines.explain_beginning(what)) is not None:
        return {"found": "line", "line": line}
    if (ordinary := lines.explain_ordinary(what)) is not None:
        return {"found": "ordinary", "ordinary": ordinary}
    if (found := search.mentions_of(what)) is not None:
        return {"found": "text", **found}
    if not what.split()[1:] and has_form_of_path(what):
        raise BadInput("no such file or directory", file=cut(what), hint=neighbour(path_of(what)))
    hint = search.argument_effects(what) or search.nearest_word(what) or "see cachesim profiles show"
    raise BadInput(f"no entry for {quoted(what)}", hint=hint)
