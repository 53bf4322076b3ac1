"""Versions in a bug report: those with the fault, the rules that cause and correct it, and the newest real build."""

from __future__ import annotations

from typing import Container, Iterator, NamedTuple, Sequence

from cachesim.base.escaping import markdown_text, printable_line
from cachesim.engines.build_names import build_of, build_with
from cachesim.engines.rule import RULES, about
from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import ChangedFields, RequestHistory, RequestOutcome
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.real_builds import real_builds
from cachesim.scenarios.schema import Scenario
from cachesim.tools.live.llama_server.real.wheels import find_wheel

BLANK = "<!-- please fill in: {} -->"
"""Text of a field that only the reporter can fill in."""


class SoughtOutcome(NamedTuple):
    """Outcome of a request without the fault: a correct answer that reuses at least ``kept`` tokens; None = any
    number, the fault is a wrong answer."""

    kept: int | None = None

    def is_good(self, outcome: RequestOutcome | None) -> bool:
        """True for an outcome without the fault."""
        return outcome is not None and outcome.equal_cold is True and outcome.cache_n >= (self.kept or 0)

    def is_known(self, outcome: RequestOutcome | None) -> bool:
        """True for an outcome that is known to be with or without the fault."""
        return outcome is not None and outcome.equal_cold is not None

    def text(self, outcome: RequestOutcome) -> str:
        """Return a known outcome in words."""
        if not outcome.equal_cold:
            return "wrong"
        return "correct" if self.kept is None else f"{outcome.cache_n} tokens reused"

    @property
    def fault(self) -> str:
        """The fault at the beginning of a sentence."""
        return "Wrong" if self.kept is None else f"Fewer than {self.kept} tokens reused"


ANSWER = SoughtOutcome()
"""A correct answer."""


def affected_versions(
    course: RequestHistory, others: Container[str], sought: SoughtOutcome = ANSWER
) -> Iterator[str]:
    """Describe the affected versions of the main branch, by a simulation of each. ``others``: rule sets outside it."""
    known = [(name, one) for name, one in course.outcomes.items()
             if one is not None and name not in others and sought.is_known(one)]  # fmt: skip
    last = next((at for at in range(len(known) - 1, 0, -1)
                 if sought.is_good(known[at - 1][1]) and not sought.is_good(known[at][1])), None)  # fmt: skip
    if last is not None:
        (old, was), (new, now) = known[last - 1], known[last]
        causes = [cause for turn in course.turns if (turn.old, turn.new) == (old, new) for cause in turn.causes]
        yield f"By simulation of each version: {sought.text(was)} at {_named(old)}, {sought.text(now)} at " \
              f"{_named(new)}{_because(causes, new)}."  # fmt: skip
    elif known:
        name, oldest = known[0]
        yield f"{sought.text(oldest).capitalize()} in the oldest version that the simulator knows with these " \
              f"options: {_named(name)}."  # fmt: skip
    bad = [name for name, one in known if not sought.is_good(one)]
    yield f"{sought.fault} up to {_named(bad[-1]) if bad else '?'}. " + BLANK.format("the commit, if you bisected")
    for cure in course.beside:
        if cure.now is not None and sought.is_good(cure.now) and not sought.is_good(cure.was):
            text = sought.text(cure.now).capitalize()
            yield f"{text} with the rules of {markdown_text(cure.new)}{_because(cure.causes)}."
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
