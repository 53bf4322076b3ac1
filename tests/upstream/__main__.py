"""``python -m tests.upstream OLD NEW``: list the rules whose source differs between two llama.cpp trees (folders or
sdists).

Exit codes: 0 = compared, 1 = rules that are known to differ were not found, 2 = unknown tree or rule set.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Iterator, Sequence

from cachesim.base import exits
from cachesim.base.errors import BadInput, nearest
from cachesim.engines.registry import ENGINES
from tests.upstream import compare
from tests.upstream.sources import Item, others, rules_of
from tests.upstream.trees import build_of, in_cache, read_tree

ENGINE = ENGINES["llama_cpp"]


def in_force(build: int) -> str:
    """Return the newest rule set of a released build up to this build; 0 = the newest of all."""
    dated = [(int(found[0]), name) for name in ENGINE.line if (found := re.findall(r"\d+", ENGINE.rules(name).build))]
    known = [name for of, name in dated if not build or of <= build]
    return known[-1] if known else ENGINE.line[0]


def missed(findings: Sequence[compare.Finding], rules: str, against: str) -> list[str]:
    """Return rules and numbers that differ between two rule sets and were not found."""
    found = {finding.item.field for finding in findings if finding.any(compare.CHANGED, compare.MOVED)}
    differ = [change.field for change in ENGINE.rules(rules).changes(ENGINE.rules(against))]
    return [name for name in differ if name not in found]


def lines(findings: Sequence[compare.Finding], *states: str) -> Iterator[str]:
    """Yield a line for each item with places in any of these states."""
    for finding in findings:
        found = ", ".join(f"{place}: {state}" for place, state in finding.states if state in states)
        if found:
            yield f"  {finding.item.name:24} {found}"


def report(old: compare.Side, new: compare.Side, items: list[Item], n_rules: int) -> tuple[str, list[compare.Finding]]:
    """Return the comparison as text, and its findings."""
    findings = compare.judge(items, old, new)
    touched = [item for item in findings[:n_rules] if item.any(compare.CHANGED, compare.MOVED)]
    out = [f"rules whose source changed: {len(touched)} of {n_rules}"]
    out += lines(findings[:n_rules], compare.CHANGED, compare.MOVED)
    out += ["", "numbers and parts of the driver whose source changed:"]
    out += lines(findings[n_rules:], compare.CHANGED, compare.MOVED)
    out += ["", "sources missing in both trees:", *lines(findings, compare.LOST)]
    out += [f"  {item.item.name:24} has no place in llama.cpp" for item in findings if not item.states]
    rest = [item for item in compare.differences(old, new, items) if item.open or not item.items]
    rest = [item for item in rest if in_cache(item.file, item.symbol)]
    out += ["", f"changes in the cache logic that are not a source of any rule: {len(rest)}"]
    for item in rest:
        out.append(f"  {item.file}:{item.line} {item.symbol}: {item.kind}")
        out += [f"      {line[:110]}" for line in item.open]
    return "\n".join(out), findings


def main(words: Sequence[str] | None = None) -> int:
    """Compare two trees and print the findings."""
    parser = argparse.ArgumentParser(prog="make upstream", description=__doc__)
    parser.add_argument("old", type=_path, metavar="OLD", help="folder or sdist with a llama.cpp tree")
    parser.add_argument("new", type=_path, metavar="NEW", help="folder or sdist to compare with")
    parser.add_argument("--rules", default="", help="rule set of OLD (default: by the build in its name)")
    parser.add_argument("--against", default="", help="rule set of NEW (default: by the build in its name)")
    args = parser.parse_args(words)
    try:
        rules, exact = rule_set(args.rules, args.old)
        against, known = rule_set(args.against, args.new)
        ours = rules_of(rules)
        old, new = (compare.Side(read_tree(path)) for path in (args.old, args.new))
        text, findings = report(old, new, [*ours, *others()], len(ours))
    except BadInput as bad:
        print(bad, file=sys.stderr)
        return 2
    print(f"{args.old.name} -> {args.new.name}, rules of {rules}\n\n{text}")
    if against == rules or not (exact and known):
        return 0
    miss = missed(findings, rules, against)
    print(f"\ndiffer between {rules} and {against}, but were not found: {', '.join(miss) or 'none'}")
    return 1 if miss else 0


def _path(word: str) -> Path:
    if not word:
        raise argparse.ArgumentTypeError("expected a path (make upstream OLD=TREE NEW=TREE)")
    return Path(word).expanduser()


def rule_set(asked: str, tree: Path) -> tuple[str, bool]:
    """Return the rule set of a tree, and whether it belongs to exactly this build: the requested rule set, or the
    newest up to the build. Raise BadInput for an unknown rule set."""
    if asked and asked not in ENGINE.profiles:
        raise BadInput(f"unknown rule set '{asked}'", hint=nearest(asked, ENGINE.profiles))
    build = build_of(tree)
    name = asked or in_force(build)
    return name, bool(asked) or ENGINE.rules(name).build == f"b{build}"


def until_the_reader_goes() -> int:
    """Run ``main``. Return BROKEN_PIPE without a traceback if the reader closes the pipe (``| head``)."""
    try:
        code = main()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())      # buffered output is flushed there at exit
        return exits.BROKEN_PIPE


if __name__ == "__main__":
    sys.exit(until_the_reader_goes())
