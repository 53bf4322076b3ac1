"""Conversations on a started real server, compared with the simulator as they run."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_of
from cachesim.scenarios.option_checks import filled
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.live.player import OVER, Player
from tests.live.again import script
from tests.live.beside import Beside
from tests.live.named import LARGE, apart_of, colds, has_flash, name_of, restored, size
from tests.live.smaller import smaller


@dataclass
class Tally:
    """Results of conversations of an option set, from ``first`` on. ``why``: reason for a refusal."""

    number: int
    first: int
    model: str
    server: dict
    conversations: int = 0
    steps: int = 0
    events: int = 0
    verdicts: int = 0
    undecided: int = 0
    looked: int = 0
    refused: int = 0
    starts: int = 0
    seconds: float = 0.0
    clean: float = 0.0
    broken: float = 99.0
    differences: list = field(default_factory=list)
    why: str = ""

    @property
    def done(self):
        """Number of the last conversation that need not run again."""
        return self.conversations + self.refused


RUNS = 8                     # repetitions of a conversation under other tokens
MORE = 1000003               # distance of the seeds of two repetitions


class Table:
    """Runs conversations. ``start(flags, model)`` returns a recorder; ``out``: folder for differences. Among answers
    that are right on both sides but differ in the last digits (``floor``), the farthest of each start is repeated."""

    floor = 5e-5

    def __init__(self, start, profile, out, shrink_seconds=60, name=""):
        self.start, self.profile, self.out, self.shrink_seconds = start, profile, Path(out), shrink_seconds
        self.name = name                               # beginning of the names of files
        self.engine = engine_of(profile)

    def play(self, options, first, count, stop=lambda: False):
        """Run conversations first .. first + count - 1 of an option set until ``stop``; return a Tally."""
        began = time.monotonic()
        tally = Tally(options.number, first, options.model, options.server)
        try:
            with self.start(self._flags(options), options.model) as recorder:
                tally.starts = 1
                self._play(recorder, options, range(first, first + count), stop, tally)
        except BadInput as bad:
            if tally.starts:                       # it started, and then would not start again
                tally.differences.append(_stumble(first + tally.done, bad))
            else:                                  # a server that does not start with these options
                tally.refused, tally.why = count, str(bad)
        tally.seconds = round(time.monotonic() - began, 1)
        return tally

    def _flags(self, options):
        return self.engine.recorded.write(filled(options.server, self.engine.name))

    def _play(self, recorder, options, numbers, stop, tally):
        beside, far, since = Beside(), None, []
        for number in numbers:
            if stop():
                break
            case = options.case(number)
            since.append(number)
            try:
                difference, data = self._conversation(recorder, beside, case, f"c{number}-", tally)
            except Exception as error:         # a bug here, or a server that does not answer: both count
                tally.differences.append(_stumble(number, error))
                difference, data = None, {"steps": [{"died": True}]}
            if difference is not None:
                tally.differences.append(self._kept(recorder, options, since, difference, data))
            else:
                far = max(far, self._farthest(beside, number), key=lambda one: one[0] if one else 0.0)
            if difference is not None or beside.left or (data and OVER.keys() & data["steps"][-1].keys()):
                _add(tally, beside)
                tally.starts += 1
                recorder.reset()
                beside, since = Beside(), []
        _add(tally, beside)
        if far is not None and not stop():
            self._look(recorder, options, far[1], tally)

    def _farthest(self, beside, number):
        """Return (distance, number) of a conversation whose right answers differ from cold answers in their last
        digits."""
        found = max((apart for broken, apart in beside.apart.values() if not broken), default=0.0)
        beside.apart.clear()
        return (found, number) if found > self.floor else None

    def _look(self, recorder, options, number, tally):
        """Repeat a conversation without a difference: a hidden real difference shows under other tokens."""
        tally.looked += 1
        case = options.case(number)
        for run in range(1, RUNS + 1):
            difference, data = self.alone(recorder, case, run)
            if difference is not None and (difference.what != "verdict" or size(difference, data) > LARGE):
                tally.differences.append(self._kept(recorder, options, [number], difference, data, run))
                return

    def renamed(self, recorder, cases, step):
        """Return (simulator reports wrong, distance from a cold answer, beyond rounding) of a step, in repetitions of
        consecutive conversations under other tokens. A repetition with an earlier difference is skipped."""
        found = []
        for run in range(1, RUNS + 1):
            with suppress(BadInput):
                _, _, apart = self._repeated(recorder, cases, run)
                found += [(*apart[step], apart[step][1] > recorder.rounding)] if step in apart else []
        return found

    def without_flash(self, options, recording, step):
        """Play a recording up to a step without flash attention; return the restored tokens, and how far the answers
        are from cold answers."""
        steps = [script(one) for one in recording["steps"] if one["i"] <= step]
        with self.start([*self._flags(options), "-fa", "off"], options.model) as recorder:
            played = [recorder.play(one) for one in steps]
        found = [apart_of(cold) for one in played for member in one.get("steps", [one]) for cold in colds(member)]
        return {"restored": restored(played), "apart": found}

    def _conversation(self, recorder, beside, case, prefix, tally):
        """Run a conversation on a server that others have used; return the first difference and the recording."""
        try:
            player = Player(case.scenario(self.profile), case.seed, prefix)
        except BadInput:
            tally.refused += 1
            return None, None
        tally.conversations += 1
        for _ in player.run(recorder.play):
            pass
        data = {**recorder.trace(), "profile": self.profile.partition("@")[2]}
        return beside.hear(data), data

    def alone(self, recorder, case, run=0):
        """Run a conversation on a fresh start, with its tokens or (``run``) others; return its first difference and the
        recording."""
        return self._repeated(recorder, [case], run)[:2]

    def _repeated(self, recorder, cases, run):
        recorder.reset()
        beside = Beside()
        try:
            for case in cases:
                player = Player(case.scenario(self.profile), case.seed + MORE * run, f"c{case.seed}-")
                for _ in player.run(recorder.play):
                    pass
            data = {**recorder.trace(), "profile": self.profile.partition("@")[2]}
            return beside.hear(data), data, beside.apart
        finally:
            beside.close()

    def _kept(self, recorder, options, since, difference, data, run=0):
        """Return the data of a difference in the last of the conversations ``since`` the server started: its smallest
        conversation, or the whole recording if it depends on earlier conversations."""
        number, case = since[-1], options.case(since[-1])
        about = {"conversation": number, "group": difference.group, "what": list(difference), "runs": [],
                 "name": name_of(difference, data)}  # fmt: skip
        stem = f"{self.name}{self.profile.partition('@')[2]}-{options.seed}-{options.number}-{number}"
        try:
            again, recording = self.alone(recorder, case, run)
            about["alone"] = again is not None and again.group == difference.group
            told, seen, cases = again, recording, [case]
            if not about["alone"]:
                told, seen, cases = difference, data, list(map(options.case, since))
            if told.what == "verdict":
                about["runs"] = self.renamed(recorder, cases, told.step)
            about["name"] = name_of(told, seen, about["runs"])
            if not about["name"] and told.what == "verdict" and has_flash(seen):
                about["plain"] = self.without_flash(options, seen, told.step)
                about["name"] = name_of(told, seen, about["runs"], about["plain"])
            if about["alone"]:
                if not about["name"] and not self._known(difference.group):
                    case, again, recording = smaller(self, recorder, case, again, recording, self.shrink_seconds)
                data, about["what"] = recording, list(again)
        except Exception as error:
            about["why"] = f"{type(error).__name__}: {error}"
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / f"{stem}.json").write_text(json.dumps(data), "utf-8")
        (self.out / f"{stem}.toml").write_text(_toml(case, self.profile, about), "utf-8")
        about["file"] = f"{stem}.json"
        with (self.out / "groups").open("a", encoding="utf-8") as groups:
            groups.write(difference.group + "\n")
        return about

    def _known(self, group):
        """True if a difference of this group was shrunk before."""
        file = self.out / "groups"
        return file.exists() and group in file.read_text("utf-8").splitlines()


def _add(tally, beside):
    for name in ("steps", "events", "verdicts", "undecided"):
        setattr(tally, name, getattr(tally, name) + getattr(beside, name))
    tally.clean, tally.broken = max(tally.clean, beside.clean), min(tally.broken, beside.broken)
    beside.close()


def _stumble(number, error):
    """Return the data of a conversation that could not be run or compared."""
    text = f"{type(error).__name__}: {error}"
    return {"conversation": number, "group": f"stumbled: {type(error).__name__}", "name": "", "file": "",
            "what": [0, "stumbled", text, None, False]}  # fmt: skip


def _toml(case, profile, about):
    head = {"id": f"live-{case.seed}", "title": about["group"], "source": ["cachesim"], "why": str(about["what"]),
            "engine": case.engine, "model": case.model, "profiles": [profile]}  # fmt: skip
    return to_toml(head, case.scenario(profile).server, {word: n for word, n in case.words.items() if n}, case.asked)
