"""Versions in a bug report: those with the fault, the rules that cause and correct it, and the newest real build."""

from __future__ import annotations

from typing import Container, Iterator, Sequence

from cachesim.base.escaping import markdown_text, printable_line
from cachesim.engines.build_names import build_of, build_with
from cachesim.engines.rule import RULES, about
from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import ChangedFields, RequestHistory
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.real_builds import real_builds
from cachesim.scenarios.schema import Scenario
from cachesim.tools.live.llama_server.real.wheels import find_wheel

BLANK = "<!-- please fill in: {} -->"
"""Text of a field that only the reporter can fill in."""


def affected_versions(course: RequestHistory | None, beside: Container[str]) -> Iterator[str]:
    """Describe the affected versions of the main branch, by a simulation of each. ``beside``: the proposals."""
    if course is None:
        yield "The answer is correct under this rule set."
        return
    known = [(name, one) for name, one in course.outcomes.items() if name not in beside and one is not None]
    wrong = [name for name, one in known if one.equal_cold is False]
    turns = [one for one in course.turns if one.now is not None and one.now.equal_cold is False]
    if not turns:
        oldest = known[0][0] if known else "?"
        yield f"Wrong in the oldest version that the simulator knows with these options: {_named(oldest)}."
    else:
        last = turns[-1]
        yield f"By simulation of each version: correct at {_named(last.old)}, wrong at {_named(last.new)}" \
              f"{_because(last.causes, last.new)}."  # fmt: skip
    yield f"Wrong up to {_named(wrong[-1]) if wrong else '?'}. " + BLANK.format("the commit, if you bisected")
    for cure in course.beside:
        if cure.now is not None and cure.now.equal_cold is True and not (cure.was and cure.was.equal_cold):
            yield f"Correct with the rules of {markdown_text(cure.new)}{_because(cure.causes)}."
            yield from (f"- {edit}" for edit in _edits(cure.causes))


def newest_seen(scenario: Scenario) -> Iterator[str]:
    """Name the newest real build of the package index on which the fault of a bundled scenario was seen."""
    is_bundled = str(corpus_files().get(scenario.id)) == str(scenario.file)
    if not is_bundled or not (seen := real_builds(scenario.id).shown):
        return
    wheel = find_wheel(seen[-1])
    yield f"Newest wheel with llama-server on which it was seen: {wheel.build} (`pip install {wheel.requirement}`)."


def _named(profile: str) -> str:
    """Return a rule set with the build that has it."""
    build = build_of(profile)
    return markdown_text(f"{build} ({profile})" if build else profile)


def _because(causes: Sequence[ChangedFields], profile: str = "") -> str:
    """Describe the causing changes; ``profile``: the rule set that has them, for the first build with each."""
    said = " or ".join(" together with ".join(_change(one, profile) for one in cause.changes) for cause in causes)
    return f", because of {said}" if said else ""


def _change(change: Change, profile: str) -> str:
    since = build_with(profile, change)
    where = ", ".join(filter(None, (change.source, f"in {since}" if since else "")))
    return markdown_text(f"{change.field}: {change.old} -> {change.new}" + (f" ({where})" if where else ""))


def _edits(causes: Sequence[ChangedFields]) -> Iterator[str]:
    """Yield the change to the server's source for each rule that corrects the answer, if known."""
    for rule_id in dict.fromkeys(change.new for cause in causes for change in cause.changes):
        source = about(RULES[rule_id]).source if rule_id in RULES else None
        if source is not None and source.path and source.note:
            yield printable_line(f"{source.path}: {source.note.removeprefix('proposed here: ')}")   # a note is Markdown
