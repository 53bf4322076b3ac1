"""A case on a real server and in the simulator: fitted to the model, played, replayed, compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.manual import Option
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.schema import Scenario
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
from cachesim.tools.live.llama_server.verify.fit import fitted
from cachesim.tools.live.llama_server.verify.model_of import Facts, from_file, from_server
from cachesim.tools.live.llama_server.verify.remote import Remote
from cachesim.tools.live.llama_server.verify.rows import ComparedRequest, rows
from cachesim.tools.live.player import Player

ROUNDING, AMPLIFIED, DEFAULT_FLAGS = 1e-3, 5e-3, 0.2
"""Differences of log-probabilities that are rounding: with F32 and one thread, for windows of gemma3, and on a server
whose flags are not ours."""


class Verified(NamedTuple):
    """``rows`` of all requests; ``model`` in our notation, ``profile`` of ours, ``notes``: what was changed or could
    not be asked as it is written. ``undecided``: why nothing was played, "" = it was."""

    rows: list[ComparedRequest]
    model: str
    profile: str
    notes: list[str]
    undecided: str = ""

    @property
    def same(self) -> bool | None:
        """Returns True if all requests are the same on both sides, None if that is not known."""
        if any(row.same is False for row in self.rows):
            return False
        return None if self.undecided or any(row.same is None for row in self.rows) else True


def on_server(
    scenario: Scenario, profile: str, binary: Path, gguf: Path, layers: str = "", tolerance: float | None = None
) -> Verified:
    """Start a server with the scenario's options and play on it; its log is read. Raises BadInput."""
    facts = from_file(gguf, layers)
    ours, notes = _for_model(scenario, profile, facts, scenario.server)
    if ours is None:
        return Verified([], facts.layers, profile, [], notes[0])
    player = Player(ours, vocabulary=facts.vocabulary)
    amplified = facts.tiny and find_model(facts.layers).arch == "gemma3"
    rounding = tolerance if tolerance is not None else AMPLIFIED if amplified else ROUNDING
    with Recorder(ServerStart(binary, gguf, tuple(player.write(ours.server)), ""), rounding=rounding) as recorder:
        for _ in player.run(recorder.play):
            pass
        data = recorder.trace()
    return _compared(ours, data, profile, facts, [*notes, *player.notes])


def on_url(
    scenario: Scenario, profile: str, remote: Remote, layers: str = "", given: Mapping[str, Option] | None = None,
) -> Verified:
    """Play on a server that runs. ``given``: the options that the user says it has; of the others those that it says
    itself are taken, and the real defaults. Raises BadInput."""
    facts = from_server(remote.props, remote.models, layers)
    server, assumed = _options(scenario, remote, given or {})
    ours, notes = _for_model(scenario, profile, facts, server)
    if ours is None:
        return Verified([], facts.layers, profile, assumed, notes[0])
    if any(step.action is not None and step.action.do == "restart" for step in ours.steps):
        return Verified([], facts.layers, profile, assumed, "the server would have to be started again")
    data, said = _played(ours, remote, facts)
    return _compared(ours, data, profile, facts, [*assumed, *notes, *said])


def record_url(
    scenario: Scenario, remote: Remote, layers: str, given: Mapping[str, Option]
) -> tuple[dict[str, Any], list[str]]:
    """The recording of a scenario, played as it is written on a server that runs, and what is to be said of it. Raises
    BadInput."""
    facts = from_server(remote.props, remote.models, layers)
    server, assumed = _options(scenario, remote, given)
    data, notes = _played(replace(scenario, server=server), remote, facts)
    return data, [*assumed, *notes]


def _played(scenario: Scenario, remote: Remote, facts: Facts) -> tuple[dict[str, Any], list[str]]:
    """Play on a server that runs: a recording without the server's log, and what is to be said of it."""
    cannot = remote.clear()
    player = Player(scenario, remote.seed(), vocabulary=facts.vocabulary)
    for _ in player.run(remote.play):
        pass
    remote.compare_all()
    return {
        "engine": "llama.cpp", "commit": remote.build, "model": _file(facts), "name": scenario.id,
        "workload": scenario.id, "seed": 0, "note": None, "log": False, "flags": player.write(scenario.server),
        "base_flags": [], "env": {}, "server": {"n_slots": remote.slots}, "inexact": remote.inexact,
        "steps": remote.steps,
    }, [*cannot, *player.notes]  # fmt: skip


def _file(facts: Facts) -> str:
    """The name of a model's file from which a recording's reader finds its layers."""
    return f"tiny-{facts.layers.replace(' ', '')}.gguf"


def _for_model(
    scenario: Scenario, profile: str, facts: Facts, server: Mapping[str, Option]
) -> tuple[Scenario | None, list[str]]:
    """The scenario for this model and these options, and what was changed; None with the reason if it does not fit."""
    try:
        ours, said = fitted(scenario, profile, facts.layers, server)
    except BadInput as bad:
        return None, [bad.cause]
    notes = [f"written for the model {scenario.model}, compared on {facts.layers}"] if _other(scenario, facts) else []
    if not facts.tiny:
        notes.append("sizes in bytes are another model's: what the prompt cache evicts by size is not compared")
    return ours, [*notes, *([said] if said else [])]


def _other(scenario: Scenario, facts: Facts) -> bool:
    def layers(name: str) -> str:
        try:
            return find_model(name).name
        except BadInput:
            return name

    return layers(scenario.model) != layers(facts.layers)


def _options(scenario: Scenario, remote: Remote, given: Mapping[str, Option]) -> tuple[dict[str, Option], list[str]]:
    """The options of a running server: those given, those that it says, the real defaults; and what was assumed."""
    manual = ENGINES[scenario.engine].manual
    server = {flag.name: flag.default for flag in manual.flags}
    unified = bool(given.get("kv_unified", remote.slots == 4 and "parallel" not in given))
    server |= {"parallel": remote.slots, "kv_unified": unified,
               "ctx_size": remote.context * (1 if unified else remote.slots), **given}  # fmt: skip
    assumed = f"assumed of the server: its defaults, {remote.slots} slots{' with one cache' if unified else ''}"
    return server, [f"{assumed}; --set says otherwise"]


def _compared(
    ours: Scenario, data: Mapping[str, Any], profile: str, facts: Facts, notes: list[str]
) -> Verified:
    named = {**data, "model": _file(facts)}
    texts = [step.text for step in ours.steps]
    return Verified(rows(named, profile, texts, facts.tiny), facts.layers, profile, list(dict.fromkeys(notes)))


def as_data(found: Verified) -> dict[str, Any]:
    """The result as plain data."""
    requests = [{**row._asdict(), "ours": row.ours._asdict(), "theirs": row.theirs._asdict()} for row in found.rows]
    return {
        "same": found.same, "model": found.model, "profile": found.profile, "undecided": found.undecided,
        "notes": found.notes, "requests": requests,
    }  # fmt: skip


