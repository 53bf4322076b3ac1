"""What a campaign leaves in a folder: a scenario file for each failure, from the moment it is found, and one file that
says how far the campaign is, from which it can go on.

A scenario file is called by what it says, so that campaigns which share a folder cannot write over each other's. It is
removed when a smaller one has taken its place. The campaign's own file is called by what is searched; it is replaced as
a whole after every block, when the files of the failures are there.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

from cachesim import __version__
from cachesim.errors import BadInput
from cachesim.files import alone, make_folder, write_new, write_whole
from cachesim.fuzz.against import Cost
from cachesim.fuzz.campaign import Campaign, Failure, joined
from cachesim.fuzz.finding import Finding, Group
from cachesim.fuzz.findings_export import failure_data
from cachesim.rule_files import digest

MAX_BYTES = 1 << 26
FORM = 2                # of what is told of a finding: since then by kind and numbers


class Plan(NamedTuple):
    """What is searched: everything but for how long. ``against``: another profile, "" = none."""

    profile: str
    properties: tuple[str, ...]
    models: tuple[str, ...]
    mode: str
    seed: int
    against: str = ""

    @property
    def file(self) -> str:
        """The name of the campaign's file."""
        said = self if self.against else self[:-1]
        digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:8]
        return f"campaign-{self.profile}-seed{self.seed}-{digest}.json"

    @property
    def rules(self) -> str:
        """What stands in the files of rules that are searched."""
        return " ".join(digest(name) for name in (self.profile, self.against) if name)


class Folder:
    """The folder of one campaign. ``missing``: failures whose file could not be written; ``refused``: why something was
    not written the last time, None if all was."""

    def __init__(self, path: Path, plan: Plan) -> None:
        """Make the folder if it is missing, and try it. Raises BadInput."""
        self.path, self.plan = make_folder(path), plan
        self.state = self.path / plan.file
        self.files: dict[Group, str] = {}
        self.missing: set[Group] = set()
        self.refused: BadInput | None = None
        self._known: dict[Group, tuple[int, bool]] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process works on this campaign inside. Raises BadInput if one does."""
        with alone(self.path / f".{self.plan.file}.lock") as free:
            if not free:
                raise BadInput("another process is at work on this campaign", file=str(self.state))
            yield

    def begin(self, resume: bool) -> Campaign:
        """What is known of the campaign so far. Raises BadInput if it is there already and is not to be resumed, or its
        file is none of ours."""
        campaign = Campaign(self.plan.profile)
        if write_new(self.state, self._packed(campaign)):
            return campaign
        if not resume:
            raise BadInput("this campaign is here already", file=str(self.state), hint="--resume goes on with it")
        return self._read()

    def keep(self, campaign: Campaign) -> Iterator[Path]:
        """Write what is new; the files as they are written. What could not be written is tried again the next time."""
        self.refused = None
        for group, failure in campaign.failures.items():
            if self._known.get(group) == (failure.first, failure.shrunk):
                continue
            try:
                if file := self._keep(group, failure):
                    yield file
                self.missing.discard(group)
                self._known[group] = failure.first, failure.shrunk
            except BadInput as bad:
                self.missing.add(group)
                self.refused = bad
        try:
            write_whole(self.state, self._packed(campaign))
        except BadInput as bad:
            self.refused = bad

    def _keep(self, group: Group, failure: Failure) -> Path | None:
        data = failure_data(failure, self.plan.profile, self.plan.models, self.path)
        if failure.shrunk:
            failure.kept = {name: data[name] for name in KEPT}
        if "id" not in data or self.files.get(group) == data["id"]:
            return None
        file = self._file(data["id"])
        write_new(file, data["toml"].encode())
        old, self.files[group] = self.files.get(group), data["id"]
        if old is not None and old not in self.files.values():
            with suppress(OSError):
                self._file(old).unlink()
        return file

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.toml"

    def _packed(self, campaign: Campaign) -> bytes:
        failures = [
            {"first": one.first, "times": one.times, "finding": one.finding._asdict(), "file": self.files.get(group),
             "kept": one.kept}
            for group, one in campaign.failures.items()
        ]  # fmt: skip
        return json.dumps({
            "cachesim": __version__, "form": FORM, "plan": list(self.plan), "rules": self.plan.rules,
            "played": campaign.played, "refused": campaign.refused, "done": campaign.done, "failures": failures,
            "mended": [
                {"first": one.first, "times": one.times, "finding": one.finding._asdict()}
                for one in campaign.mended.values()
            ],
            "cost": campaign.cost,
        }, indent=1).encode()  # fmt: skip

    def _read(self) -> Campaign:
        """The campaign in the file, which is data like any other: what does not fit is refused."""
        try:
            if self.state.stat().st_size > MAX_BYTES:
                raise ValueError("too large")
            data = json.loads(self.state.read_bytes())
            if (data["cachesim"], data["plan"]) != (__version__, json.loads(json.dumps(self.plan))):
                raise ValueError("another version or another search")
            if data.get("form") != FORM:
                raise ValueError("its findings are of another form, begin a new one")
            if data["rules"] != self.plan.rules:
                raise ValueError("the file of rules was changed since")
            return self._unpacked(data)
        except OSError as error:
            raise BadInput((error.strerror or "cannot be read").lower(), file=str(self.state)) from None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise BadInput(f"not a campaign to resume: {str(error)[:80]}", file=str(self.state)) from None

    def _unpacked(self, data: Mapping[str, Any]) -> Campaign:
        done = [(int(first), int(stop)) for first, stop in data["done"]]
        campaign = Campaign(self.plan.profile, {}, int(data["played"]), int(data["refused"]), joined(done))
        for one in data["failures"]:
            finding = _finding(one["finding"])
            kept = None if one["kept"] is None else {name: _is(kind, one["kept"][name]) for name, kind in KEPT.items()}
            campaign.failures[finding.group] = Failure(int(one["first"]), finding, int(one["times"]), kept=kept)
            if one["file"] is not None:
                if not re.fullmatch(r"fuzz-\d+-[0-9a-f]{8}", one["file"]):
                    raise ValueError("not a name of ours")
                self.files[finding.group] = one["file"]
                self._known[finding.group] = int(one["first"]), kept is not None
        for one in data["mended"]:
            finding = _finding(one["finding"])
            campaign.mended[finding.group] = Failure(int(one["first"]), finding, int(one["times"]))
        campaign.cost = Cost(*map(int, data["cost"]))
        return campaign


KEPT = {"line": str, "model": str, "server": dict, "requests": int, "longest": int, "id": str, "toml": str}
"""What is told of a case, for a later run to tell again."""


def _finding(data: Mapping[str, Any]) -> Finding:
    """A finding that was written down. What its sentence needs must be there: raises KeyError, TypeError or
    ValueError."""
    kind, deciding, stored = (str(data[name]) for name in ("kind", "deciding", "stored"))
    numbers = _is(dict, data["numbers"])
    causes = tuple(map(str, data["causes"]))
    finding = Finding(str(data["name"]), int(data["step"]), kind, numbers, deciding, stored, causes)
    if not (finding.text and finding.label):
        raise ValueError("a finding without words")
    return finding


def _is(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} instead of {kind.__name__}")
    return value
