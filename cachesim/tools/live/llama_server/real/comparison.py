"""Comparison of a scenario in the simulator and on a real server, with a tiny model of the same kind.

The simulator runs the rule set of the server's build and replays what the real server received and generated. A real
server is fresh for each comparison.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item
from cachesim.base.untrusted_files import FILE, kind
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.tree import Pieces, map_step_texts
from cachesim.scenarios.schema import Scenario
from cachesim.tools.live.llama_server.gguf_models import find_model, write_model
from cachesim.tools.live.llama_server.older_server import OlderServer
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.real.installation import cache_folder
from cachesim.tools.live.llama_server.real.real_server import ENGINE, RealServer
from cachesim.tools.live.llama_server.recorder import Recorder
from cachesim.tools.live.llama_server.server import LlamaServer, ServerStart
from cachesim.tools.live.llama_server.verify.case import Verification, as_data, on_server
from cachesim.tools.live.llama_server.verify.compared_requests import ENDED, ComparedRequest
from cachesim.tools.live.player import Player

BATCHES = ("batch_size", "ubatch_size")
REPEATED = 8                # repetitions with other tokens
UNMARKED = "user messages are not marked on either side: builds before b10068 take marks with text only"
TIE = "differs from a cold run on one side only, and not with other tokens: two tokens are about equally likely"


class RealComparison(NamedTuple):
    """A scenario on both sides. ``found``: the requests; None with the reason ``left_out`` if it was not run."""

    scenario: Scenario
    server: RealServer
    found: Verification | None
    left_out: str = ""

    @property
    def same(self) -> bool | None:
        """True if both sides agree in every request, None if that is undecided."""
        return None if self.found is None else self.found.same


def compare_case(scenario: Scenario, server: RealServer, gguf: Path | None = None) -> RealComparison:
    """Run a scenario on a real server and in the simulator. ``gguf``: model file, by default a tiny model of the
    scenario's layers, which is made. A scenario that cannot be sent is left out with the reason.

    If only the comparison of an answer with its cold run differs, the scenario is repeated with other tokens: two
    tokens may be about equally likely. Unless a repetition differs, too, the request is undecided."""
    compared = _compared(scenario, server, gguf, 0)
    if _ends_unforeseen(compared) and _ends_at_any_prompt(scenario, server, gguf):
        return RealComparison(scenario, server, None, f"the real {server.build} ends at any prompt with this model")
    if compared.found is None or not any(map(_is_doubtful, compared.found.rows)):
        return compared
    for seed in range(1, REPEATED + 1):
        again = _compared(scenario, server, gguf, seed)
        if again.same is False:
            return compared
    rows = [row._replace(same=None, why=TIE) if _is_doubtful(row) else row for row in compared.found.rows]
    found = compared.found._replace(rows=rows)
    return compared._replace(found=found, left_out=found.undecided)


def _ends_unforeseen(compared: RealComparison) -> bool:
    """True if the real process ended at the first request, and the simulated one did not."""
    first = next(iter(compared.found.rows), None) if compared.found else None
    return first is not None and first.theirs.status == ENDED and first.ours.status != ENDED


def _ends_at_any_prompt(scenario: Scenario, server: RealServer, gguf: Path | None) -> bool:
    """True if a server with the scenario's model and batches and one slot ends at its start or at a short prompt, too:
    the build cannot evaluate the model."""
    batches = {name: scenario.server[name] for name in BATCHES if name in scenario.server}
    options = {"parallel": 1, "kv_unified": True, "ctx_size": 256, **batches}
    short = from_line("A9", model=scenario.model, profiles=(server.profile,), server=options)
    found = _compared(short, server, gguf, 0)
    return found.found is None or _ends_unforeseen(found)


def _compared(scenario: Scenario, server: RealServer, gguf: Path | None, seed: int) -> RealComparison:
    """Run a scenario on both sides with the tokens of a seed."""
    why = unsendable(scenario, server.is_logged)
    if why:
        return RealComparison(scenario, server, None, why)
    sent = scenario if server.takes_marks else without_marks(scenario)
    try:
        model = gguf or model_file(scenario.model)
        for draft in _draft_models(scenario):
            model_file(draft)
        found = on_server(sent, server.profile, server.binary, model, build=server.build, kind=kind_of(server),
                          seed=seed)  # fmt: skip
    except BadInput as bad:
        return RealComparison(scenario, server, None, bad.cause)
    if sent is not scenario:
        found = found._replace(notes=[UNMARKED, *found.notes])
    return RealComparison(scenario, server, found, found.undecided)


def without_marks(scenario: Scenario) -> Scenario:
    """Return the scenario without the marks of user messages, which older builds do not take with a prompt of tokens;
    the scenario itself if it has none."""
    if not any(step.request.user_starts for step in scenario.steps):
        return scenario
    steps = [
        replace(step, asked=map_step_texts(step.asked, _unmarked), request=replace(step.request, user_starts=()))
        for step in scenario.steps
    ]
    return replace(scenario, steps=tuple(steps))


def _unmarked(text: Pieces) -> Pieces:
    return tuple(piece._replace(user=False) for piece in text)


def _is_doubtful(row: ComparedRequest) -> bool:
    """True if both sides agree in everything but the comparison of the answer with a cold run."""
    agree = row.ours[:3] == row.theirs[:3] and not row.first
    return row.same is False and agree and row.ours.equal != row.theirs.equal


def kind_of(server: RealServer) -> type[LlamaServer]:
    """Return the class that runs a server."""
    if not server.is_logged:
        return QuietServer
    return LlamaServer if server.takes_marks else OlderServer


def record_case(
    scenario: Scenario, server: RealServer, gguf: Path | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the recording of a scenario on a real server, and notes on requests that had to be changed. Raise
    BadInput."""
    model = gguf or model_file(scenario.model)
    player = Player(scenario)
    start = ServerStart(server.binary, model, tuple(player.write(scenario.server)), server.build)
    with Recorder(start, server=kind_of(server)) as recorder:
        for _ in player.run(recorder.play):
            pass
        trace = recorder.trace()
    trace |= {"name": scenario.id, "profile": server.profile.partition("@")[2]}
    return trace, player.notes


def unsendable(scenario: Scenario, is_logged: bool) -> str:
    """Return why a scenario cannot be run on a real server, "" if it can. ``is_logged``: the server's log is read,
    which shows when a request arrived and when its client had disconnected."""
    return next(_reasons(scenario, is_logged), "")


def _reasons(scenario: Scenario, is_logged: bool) -> Iterator[str]:
    if scenario.engine != ENGINE:
        yield f"only scenarios of {ENGINE} are run on real servers"
    if not is_logged and scenario.server.get("spec_type", "none") != "none":
        yield "the lengths of drafts stand only in the log of b7376 and newer"
    for number, step in enumerate(scenario.steps):
        if any(map(is_item, step.request.prompt)):
            yield f"request {number}: an image of a scenario has no pixels"
        if step.drafts or step.request.draft_else:
            yield f"request {number}: its drafts are forced; a real server drafts itself"
        if step.after and not is_logged:
            yield f"request {number} arrives after some iterations, which only the log of b7376 and newer shows"
        if step.request.cancel_at is not None and not is_logged:
            yield f"request {number}: when its client has disconnected, only the log of b7376 and newer shows"


def model_file(notation: str) -> Path:
    """Return the file of a tiny model with these layers, which is written at its first use. Raise BadInput if
    llama.cpp has no such architecture."""
    folder = cache_folder() / "models"
    file = folder / find_model(notation).file
    if kind(file) != FILE:
        folder.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{os.getpid()}-{file.name}")
        write_model(notation, beside)
        beside.replace(file)
    return file


def _draft_models(scenario: Scenario) -> Iterator[str]:
    """Yield the draft models that a scenario's server loads."""
    name = scenario.server.get("model_draft")
    if isinstance(name, str) and name:
        yield name


def comparison_data(compared: RealComparison) -> dict[str, Any]:
    """Return a comparison as plain data."""
    server = compared.server
    head = {"scenario": compared.scenario.id if compared.scenario.file else repr(compared.scenario),
            "build": server.build, "server": server.source, "profile": server.profile, "same": compared.same,
            "log_read": server.is_logged, "left_out": compared.left_out}  # fmt: skip
    if compared.found is None:
        return {**head, "model": compared.scenario.model, "notes": [], "requests": []}
    data = as_data(compared.found)
    return {**head, **{name: data[name] for name in ("model", "notes", "requests")}}


def compare_cases(
    scenarios: Sequence[Scenario], servers: Sequence[RealServer], gguf: Path | None
) -> Iterator[RealComparison]:
    """Yield the comparison of every scenario with every server."""
    for scenario in scenarios:
        for server in servers:
            yield compare_case(scenario, server, gguf)
