"""``python -m tests.upstream OLD NEW``: which of our rules does the newer tree touch? Folders or sdists of llama.cpp.

Exit codes: 0 = compared, 1 = rules that are known to differ were not found, 2 = no such tree or rule set.
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
    """The newest rule set of a released build that is not newer than this one; 0 = the newest of all."""
    dated = [(int(found[0]), name) for name in ENGINE.line if (found := re.findall(r"\d+", ENGINE.rules(name).build))]
    known = [name for of, name in dated if not build or of <= build]
    return known[-1] if known else ENGINE.line[0]


def missed(findings: Sequence[compare.Finding], rules: str, against: str) -> list[str]:
    """Rules and numbers in which two rule sets differ, and of which nothing was found."""
    found = {one.item.field for one in findings if one.any(compare.CHANGED, compare.MOVED)}
    differ = [change.field for change in ENGINE.rules(rules).changes(ENGINE.rules(against))]
    return [name for name in differ if name not in found]


def lines(findings: Sequence[compare.Finding], *states: str) -> Iterator[str]:
    """One line for each item with a place in one of these states, and the places."""
    for one in findings:
        told = ", ".join(f"{place}: {state}" for place, state in one.states if state in states)
        if told:
            yield f"  {one.item.name:24} {told}"


def report(old: compare.Side, new: compare.Side, items: list[Item], n_rules: int) -> tuple[str, list[compare.Finding]]:
    """The comparison as text, and what it found."""
    findings = compare.judge(items, old, new)
    touched = [one for one in findings[:n_rules] if one.any(compare.CHANGED, compare.MOVED)]
    out = [f"rules whose source changed: {len(touched)} of {n_rules}"]
    out += lines(findings[:n_rules], compare.CHANGED, compare.MOVED)
    out += ["", "numbers and parts of the driver whose source changed:"]
    out += lines(findings[n_rules:], compare.CHANGED, compare.MOVED)
    out += ["", "sources that are in neither tree:", *lines(findings, compare.LOST)]
    out += [f"  {one.item.name:24} names no place in llama.cpp" for one in findings if not one.states]
    rest = [one for one in compare.differences(old, new, items) if one.open or not one.items]
    rest = [one for one in rest if in_cache(one.file, one.symbol)]
    out += ["", f"changed in the cache logic, and nothing of ours was read from there: {len(rest)}"]
    for one in rest:
        out.append(f"  {one.file}:{one.line} {one.symbol}: {one.kind}")
        out += [f"      {line[:110]}" for line in one.open]
    return "\n".join(out), findings


def main(words: Sequence[str] | None = None) -> int:
    """Compare two trees and print what was found."""
    parser = argparse.ArgumentParser(prog="make upstream", description=__doc__)
    parser.add_argument("old", type=_path, metavar="OLD", help="folder or sdist with a llama.cpp tree")
    parser.add_argument("new", type=_path, metavar="NEW")
    parser.add_argument("--rules", default="", help="rule set in force in OLD (default: by the build in its name)")
    parser.add_argument("--against", default="", help="rule set of NEW (default: by its name)")
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
    print(f"\ndiffer between {rules} and {against}, and were not found: {', '.join(miss) or 'none'}")
    return 1 if miss else 0


def _path(word: str) -> Path:
    if not word:
        raise argparse.ArgumentTypeError("is not given: make upstream OLD=TREE NEW=TREE")
    return Path(word).expanduser()


def rule_set(asked: str, tree: Path) -> tuple[str, bool]:
    """The rule set of a tree, and whether it is that of this very build: the one that was asked for, or the newest that
    is not newer than the build. Raises BadInput for an unknown one."""
    if asked and asked not in ENGINE.profiles:
        raise BadInput(f"unknown rule set '{asked}'", hint=nearest(asked, ENGINE.profiles))
    build = build_of(tree)
    name = asked or in_force(build)
    return name, bool(asked) or ENGINE.rules(name).build == f"b{build}"


def until_the_reader_goes() -> int:
    """``main``, and no traceback where nobody reads its end (``| head``)."""
    try:
        code = main()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())      # what is left is flushed there at exit
        return exits.BROKEN_PIPE


if __name__ == "__main__":
    sys.exit(until_the_reader_goes())
