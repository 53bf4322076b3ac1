"""Command ``cachesim explain X``: explain a rule, a family of rules, a term or a log line, or list related entries."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput, quoted
from cachesim.tools.run.arguments import add_json, add_profiles


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="X",
                        help="rule id or its beginning, term such as pos_min, line of a server log, log file, or any "
                             "words")  # fmt: skip
    add_profiles(parser, "additional Python file of rules, may be repeated")
    add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.tools.rulebook.explain_report import explain_report

    data = _explained(args.what)
    if args.json:
        say_json(data)
    else:
        show(*explain_report(data))
    return exits.HOLDS


def _explained(what: str) -> dict[str, Any]:
    """Return the explanation of X by the first successful lookup; ``found`` names it. Raises BadInput if all fail."""
    from cachesim.tools.rulebook import explain_report as search
    from cachesim.tools.server_logs.recognise import explain_line, explain_log

    if os.path.isfile(what):
        return {"found": "log", "log": explain_log(Path(what))}
    rules = search.rules_named(what)
    if rules:
        return {"found": "rule" if len(rules) == 1 else "rules", "rules": search.about_rules(rules)}
    if (term := search.term_named(what)) is not None:
        return {"found": "term", "term": term}
    if (line := explain_line(what)) is not None:
        return {"found": "line", "line": line}
    if (found := search.mentions_of(what)) is not None:
        return {"found": "text", **found}
    hint = search.nearest_word(what) or "see cachesim profiles show"
    raise BadInput(f"no entry for {quoted(what)}", hint=hint)
