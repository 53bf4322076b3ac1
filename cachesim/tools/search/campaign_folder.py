"""Folder of a campaign: a scenario file for each failure, and a state file from which the campaign can be resumed.

The name of a scenario file contains a digest of its text, so that campaigns which share a folder do not overwrite each
other's files. A smaller case replaces the file. The name of the state file contains a digest of the search; the file is
replaced atomically after every block, after the scenario files of the failures.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.base.escaping import comment_line
from cachesim.base.files import locked, make_folder, write_new, write_whole
from cachesim.base.shard import WHOLE, Shard
from cachesim.engines.registry import role_of_rule
from cachesim.engines.rule_files import file_header, profile_argument
from cachesim.judging.failure_chain import explained
from cachesim.judging.reproduce_command import line_command
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.search.campaign import Campaign, CampaignPlan, Failure, drawn
from cachesim.tools.search.campaign_file import KEPT, packed, read_campaign
from cachesim.tools.search.drawn_conversation import DrawnConversation, longest
from cachesim.tools.search.property_failure import SIMULATOR, Group, PropertyFailure

# Findings as data: for JSON, for reports, and as scenario files.

def campaign_data(campaign: Campaign, plan: CampaignPlan) -> dict[str, Any]:
    """Return the data of a completed campaign. Failures are sorted by their first conversation."""
    more = {} if not plan.against else {
        "against": plan.against, "cost": campaign.cost._asdict(),
        "mended": [_mended(one, plan) for one in _in_order(campaign.mended)],
    }  # fmt: skip
    return {
        "profile": plan.profile, "properties": list(plan.properties), "seed": plan.seed, "examples": campaign.played,
        "refused": campaign.refused, "failures": [failure_data(one, plan) for one in _in_order(campaign.failures)],
        **more,
    }  # fmt: skip


def with_failures(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a campaign with every failure ``explained``."""
    found = [explained(one, data["profile"], one["step"], one["text"]) for one in data["failures"]]
    return {**data, "failures": found}


def _in_order(failures: Mapping[Group, Failure]) -> list[Failure]:
    return sorted(failures.values(), key=lambda one: (one.first, one.finding.group))


def _mended(failure: Failure, plan: CampaignPlan) -> dict[str, Any]:
    """Return a failure that only the other rule set has, with its first conversation as drawn."""
    case = drawn(failure, plan)
    what = {} if case is None else case.typed(plan.profile)
    return {**finding_data(failure.finding), "times": failure.times, "conversation": failure.first, **what}


def failure_data(failure: Failure, plan: CampaignPlan, folder: Path | None = None) -> dict[str, Any]:
    """Return a failure with its case: the shrunk case, else the conversation as drawn, if it can be drawn. ``folder``:
    folder of its file, None for the current folder."""
    found = {**finding_data(failure.finding), "times": failure.times, "conversation": failure.first,
             "shrunk": failure.is_shrunk}  # fmt: skip
    case = failure.kept
    if case is None and (small := failure.small or drawn(failure, plan)):
        case = case_data(small, plan.profile, failure.finding, folder)
    if case is None:
        return found
    return {**found, **case, "command": line_command(case["line"], plan.profile, case["model"], case["server"])}


def finding_data(finding: PropertyFailure) -> dict[str, Any]:
    """Return a finding: its kind, numbers and group, and their wording (``rule``, ``text``)."""
    return {
        "property": finding.name, "kind": finding.kind, "numbers": dict(finding.numbers),
        "deciding": finding.deciding, "role": role_of_rule(finding.deciding), "stored": finding.stored,
        "rule": finding.label, "text": finding.text, "step": finding.step, "causes": list(finding.causes),
    }  # fmt: skip


def group_of(data: Mapping[str, Any]) -> Group:
    """Return the group of a finding that is given as data."""
    return data["property"], data["kind"], data["deciding"], data["stored"]


def case_data(
    case: DrawnConversation, profile: str, finding: PropertyFailure, folder: Path | None = None
) -> dict[str, Any]:
    """Return a case as typed and as a scenario file."""
    name = case_id(case, profile, finding, folder)
    return {
        **case.typed(profile), "requests": len(case.asked), "longest": longest(case), "id": name,
        "toml": case_toml(case, profile, finding, folder, name),
    }  # fmt: skip


def case_id(case: DrawnConversation, profile: str, finding: PropertyFailure, folder: Path | None = None) -> str:
    """Return the name of a case's file: the conversation and a digest of the text. Equal names mean equal texts."""
    text = case_toml(case, profile, finding, folder, "")
    return f"fuzz-{case.seed}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def case_toml(
    case: DrawnConversation, profile: str, finding: PropertyFailure, folder: Path | None = None, name: str | None = None
) -> str:
    """Return the case as a scenario file. ``name`` is its id; None: derived from the text. Expectations are added by
    `cachesim run --complete`. For a failure of the simulator the traceback precedes as comments."""
    name = case_id(case, profile, finding, folder) if name is None else name
    why = f"{finding.name}: {finding.text} ({finding.label}). Found by cachesim fuzz -p {profile_argument(profile)}."
    head = {
        "id": name, "title": f"{finding.name} fails under {profile}", "source": ["cachesim"], "why": why,
        "engine": case.engine, "model": case.model, "profiles": [profile], **file_header(profile, folder),
    }  # fmt: skip
    text = to_toml(head, case.given(), {name: n for name, n in case.words.items() if n}, case.asked)
    return "".join(f"{comment_line(line)}\n" for line in finding.causes) + text if finding.name == SIMULATOR else text


class WrittenFile(NamedTuple):
    """A scenario file, and the file of the same failure that it replaces."""

    path: Path
    replaced: Path | None


class CampaignFolder:
    """Folder of a campaign. ``missing``: failures whose file could not be written. ``refused``: the last write error,
    None if all files were written."""

    def __init__(self, path: Path, plan: CampaignPlan, shard: Shard = WHOLE) -> None:
        """Create the folder if it is missing and check that it is writable. Raise BadInput if it is not."""
        self.path, self.plan = make_folder(path), plan
        self.state = self.path / f"{plan.stem}{shard.suffix}.json"
        self.files: dict[Group, str] = {}
        self.owned: set[str] = set()
        self.missing: set[Group] = set()
        self.refused: BadInput | None = None
        self._known: dict[Group, tuple[int, bool]] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the campaign against other processes. Raise BadInput if another process holds the lock."""
        with locked(self.path / f".{self.state.name}.lock") as free:
            if not free:
                raise BadInput("another process is running this campaign", file=str(self.state))
            yield

    def begin(self, resume: bool) -> Campaign:
        """Return the stored campaign or a new campaign. Raise BadInput if it exists without ``resume``, or is
        invalid."""
        campaign = Campaign(self.plan.profile)
        if write_new(self.state, packed(self.plan, campaign, self.files, self.owned)):
            return campaign
        if not resume:
            raise BadInput("this campaign already exists", file=str(self.state), hint="--resume continues it")
        return self._read()

    def keep(self, campaign: Campaign) -> Iterator[WrittenFile]:
        """Write new failures and yield each file as it is written; the file that it replaces is removed afterwards.
        Files that cannot be written are tried again at the next call."""
        self.refused = None
        new = {group: self._data(one) for group, one in campaign.failures.items()
               if self._known.get(group) != (one.first, one.is_shrunk)}  # fmt: skip
        self._announce(campaign, [data["id"] for data in new.values() if "id" in data])
        for group, data in new.items():
            failure = campaign.failures[group]
            try:
                if written := self._keep(group, data):
                    yield written
                self.missing.discard(group)
                self._known[group] = failure.first, failure.is_shrunk
            except BadInput as bad:
                self.missing.add(group)
                self.refused = bad
        self._tidy()
        self._write(campaign)

    def _data(self, failure: Failure) -> Mapping[str, Any]:
        data = failure_data(failure, self.plan, self.path)
        if failure.is_shrunk:
            failure.kept = {name: data[name] for name in KEPT}
        return data

    def _announce(self, campaign: Campaign, names: Iterable[str]) -> None:
        """Write the names of new scenario files into the state file before the files exist. After a kill in between,
        the next run removes the files that belong to no failure."""
        if new := set(names) - self.owned:
            self.owned |= new
            self._write(campaign)

    def _write(self, campaign: Campaign) -> None:
        try:
            write_whole(self.state, packed(self.plan, campaign, self.files, self.owned))
        except BadInput as bad:
            self.refused = bad

    def _keep(self, group: Group, data: Mapping[str, Any]) -> WrittenFile | None:
        if "id" not in data or self.files.get(group) == data["id"]:
            return None
        former = self.files.get(group)
        file = self.path / f"{data['id']}.toml"
        write_new(file, data["toml"].encode())
        self.files[group] = data["id"]
        gone = former is not None and former not in self.files.values()
        return WrittenFile(file, self.path / f"{former}.toml" if gone else None)

    def _tidy(self) -> None:
        """Remove files of this campaign that belong to no failure any more."""
        for name in self.owned - set(self.files.values()):
            with suppress(OSError):
                (self.path / f"{name}.toml").unlink(missing_ok=True)
                self.owned.discard(name)

    def _read(self) -> Campaign:
        """Read the stored campaign. Raise BadInput if it is invalid or of another search."""
        kept = read_campaign(self.state)
        if kept.plan != self.plan:
            raise BadInput("not a campaign to resume: another search", file=str(self.state))
        if kept.rules != self.plan.rules:
            raise BadInput("not a campaign to resume: the rule file has changed", file=str(self.state))
        self.files, self.owned = dict(kept.files), set(kept.owned)
        self._tidy()
        for group in kept.files:
            failure = kept.campaign.failures[group]
            self._known[group] = failure.first, failure.is_shrunk
        return kept.campaign
