"""What a campaign leaves in a folder: a scenario file for each failure, from the moment it is found, and one file that
says how far the campaign is, from which it can go on.

A scenario file is called by what it says, so that campaigns which share a folder cannot write over each other's. It is
removed when a smaller one has taken its place. The campaign's own file is called by what is searched; it is replaced as
a whole after every block, when the files of the failures are there.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping

from cachesim.base.errors import BadInput
from cachesim.base.files import alone, make_folder, write_new, write_whole
from cachesim.base.shard import WHOLE, Shard
from cachesim.tools.search.campaign import Campaign, Failure
from cachesim.tools.search.campaign_file import KEPT, CampaignPlan, packed, read_campaign
from cachesim.tools.search.finding import Group
from cachesim.tools.search.findings_export import failure_data


class CampaignFolder:
    """The folder of one campaign. ``missing``: failures whose file could not be written; ``refused``: why something was
    not written the last time, None if all was."""

    def __init__(self, path: Path, plan: CampaignPlan, shard: Shard = WHOLE) -> None:
        """Make the folder if it is missing, and try it. Raises BadInput."""
        self.path, self.plan = make_folder(path), plan
        self.state = self.path / f"{plan.stem}{shard.suffix}.json"
        self.files: dict[Group, str] = {}
        self.owned: set[str] = set()
        self.missing: set[Group] = set()
        self.refused: BadInput | None = None
        self._known: dict[Group, tuple[int, bool]] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process works on this campaign inside. Raises BadInput if one does."""
        with alone(self.path / f".{self.state.name}.lock") as free:
            if not free:
                raise BadInput("another process is at work on this campaign", file=str(self.state))
            yield

    def begin(self, resume: bool) -> Campaign:
        """What is known of the campaign so far. Raises BadInput if it is there already and is not to be resumed, or its
        file is none of ours."""
        campaign = Campaign(self.plan.profile)
        if write_new(self.state, packed(self.plan, campaign, self.files, self.owned)):
            return campaign
        if not resume:
            raise BadInput("this campaign is here already", file=str(self.state), hint="--resume goes on with it")
        return self._read()

    def keep(self, campaign: Campaign) -> Iterator[Path]:
        """Write what is new; the files as they are written. What could not be written is tried again the next time."""
        self.refused = None
        new = {group: self._data(one) for group, one in campaign.failures.items()
               if self._known.get(group) != (one.first, one.shrunk)}  # fmt: skip
        self._announce(campaign, [data["id"] for data in new.values() if "id" in data])
        for group, data in new.items():
            failure = campaign.failures[group]
            try:
                if file := self._keep(group, data):
                    yield file
                self.missing.discard(group)
                self._known[group] = failure.first, failure.shrunk
            except BadInput as bad:
                self.missing.add(group)
                self.refused = bad
        self._tidy()
        self._write(campaign)

    def _data(self, failure: Failure) -> Mapping[str, Any]:
        data = failure_data(failure, self.plan.profile, self.plan.models, self.path)
        if failure.shrunk:
            failure.kept = {name: data[name] for name in KEPT}
        return data

    def _announce(self, campaign: Campaign, names: Iterable[str]) -> None:
        """The campaign's file says which files are its own before they are there: whoever goes on after a kill in
        between removes those that no failure has any more."""
        if new := set(names) - self.owned:
            self.owned |= new
            self._write(campaign)

    def _write(self, campaign: Campaign) -> None:
        try:
            write_whole(self.state, packed(self.plan, campaign, self.files, self.owned))
        except BadInput as bad:
            self.refused = bad

    def _keep(self, group: Group, data: Mapping[str, Any]) -> Path | None:
        if "id" not in data or self.files.get(group) == data["id"]:
            return None
        file = self._file(data["id"])
        write_new(file, data["toml"].encode())
        self.files[group] = data["id"]
        return file

    def _tidy(self) -> None:
        """Remove the files of ours that no failure has any more."""
        for name in self.owned - set(self.files.values()):
            with suppress(OSError):
                self._file(name).unlink(missing_ok=True)
                self.owned.discard(name)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.toml"

    def _read(self) -> Campaign:
        """The campaign in the file. Raises BadInput where it is none, or of another search."""
        kept = read_campaign(self.state)
        if kept.plan != self.plan:
            raise BadInput("not a campaign to resume: another search", file=str(self.state))
        if kept.rules != self.plan.rules:
            raise BadInput("not a campaign to resume: the file of rules was changed since", file=str(self.state))
        self.files, self.owned = dict(kept.files), set(kept.owned)
        self._tidy()
        for group in kept.files:
            failure = kept.campaign.failures[group]
            self._known[group] = failure.first, failure.shrunk
        return kept.campaign
