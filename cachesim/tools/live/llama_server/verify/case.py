"""Verification of a scenario: fit it to the real model, run it on the server, replay the recording, compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Option
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.registry import ENGINES
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.notation.tree import Action, Piece, map_step_texts
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.schema import Scenario
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
from cachesim.tools.live.llama_server.server import LlamaServer
from cachesim.tools.live.llama_server.verify.compared_requests import ComparedRequest, compare_requests
from cachesim.tools.live.llama_server.verify.model_of import (
    RECORDED_NEWEST,
    RealModelFacts,
    base_flags,
    from_file,
    from_server,
)
from cachesim.tools.live.llama_server.verify.remote import Remote
from cachesim.tools.live.player import Player, check_images

# Fitting of word lengths to another model: words become longer or shorter if windows and batches differ.
#
# Every candidate is simulated: the first change is used under which exactly the requests of the original scenario are
# wrong.

Change = Callable[[int], int]
SIZES = ("ubatch_size", "batch_size", "checkpoint_min_step")
"""Server options that lengths may relate to, besides the model's window."""


def fitted(scenario: Scenario, profile: str, model: str, server: Mapping[str, Option]) -> tuple[Scenario, str]:
    """Return the scenario for another model and server, and a description of the changes ("" = none). A scenario
    without wrong requests keeps its lengths.

    Raise BadInput if no change of lengths makes exactly the same requests wrong."""
    wanted = run_judged(scenario, profile, "provenance", with_ledger=False).broken
    target = replace(scenario, model=model, server=dict(server), expect={}, lives=())
    if not wanted:
        return target, ""
    for said, change in _changes(scenario, target):
        for where, slot in (("", -1), ("every request names slot 0", 0)):
            try:
                tried = _with(target, change, slot)
                if run_judged(tried, profile, "provenance", with_ledger=False).broken == wanted:
                    return tried, "; ".join(filter(None, (said, where)))
            except BadInput:
                continue
    wrong = ", ".join(map(str, wanted))
    raise BadInput(f"no lengths found at which the same requests are wrong ({wrong}) with the model {model} and "
                   "these options", file=scenario.file)  # fmt: skip


def _changes(scenario: Scenario, target: Scenario) -> Iterator[tuple[str, Change]]:
    """Yield changes of lengths, the smallest first, each with a description."""
    yield "", lambda n: n
    for name, old, new in _sizes(scenario, target):
        yield f"lengths from {old} on changed by {new - old:+} tokens ({name})", _moved(old, new)
        yield f"lengths scaled by {new}/{old} ({name})", _scaled(old, new)


def _sizes(scenario: Scenario, target: Scenario) -> Iterator[tuple[str, int, int]]:
    """Yield the sizes that lengths may relate to and that differ between scenario and target."""
    pairs = [("window", _window(scenario.model), _window(target.model))]
    pairs += [(name, _number(scenario, name), _number(target, name)) for name in SIZES]
    yield from ((name, old, new) for name, old, new in pairs if old > 0 and new > 0 and old != new)


def _number(scenario: Scenario, name: str) -> int:
    value = scenario.server.get(name)
    return value if isinstance(value, int) else 0


def _window(model: str) -> int:
    try:
        return max(layer.window for layer in model_kind(model).spec.layers)
    except BadInput:
        return 0


def _moved(old: int, new: int) -> Change:
    return lambda n: n if n < min(old, new) else max(1, n + new - old)


def _scaled(old: int, new: int) -> Change:
    return lambda n: max(1, round(n * new / old))


def _with(scenario: Scenario, change: Change, slot: int) -> Scenario:
    """Return the scenario with all lengths changed, including slices; requests without a slot get this slot."""
    words = {word: change(length) for word, length in scenario.words.items()}

    def changed(piece: Piece) -> Piece:
        start, stop = (None if end is None else change(end) if end else 0 for end in (piece.start, piece.stop))
        return piece._replace(start=start, stop=None if stop is None else min(stop, words[piece.word]))

    steps = [map_step_texts(step.asked, lambda text: tuple(map(changed, text))) for step in scenario.steps]
    steps = [one if isinstance(one, Action) or one.id_slot >= 0 else one._replace(id_slot=slot) for one in steps]
    whys = [step.why for step in scenario.steps]
    return replace(scenario, words=words, steps=make_steps(tuple(steps), words, scenario.server, whys))


ROUNDING, AMPLIFIED, DEFAULT_FLAGS = 1e-3, 5e-3, 0.2
"""Largest differences of log-probabilities that count as rounding: with F32 and one thread, for windows of gemma3, and
on a server with unknown flags."""


class Verification(NamedTuple):
    """Result of a verification. ``rows``: all requests; ``model`` in cachesim's notation, ``profile`` of cachesim;
    ``notes``: changes to the scenario. ``undecided``: reason why nothing was run, "" = it was run; ``recording``:
    what the real server received and answered, None = not run."""

    rows: list[ComparedRequest]
    model: str
    profile: str
    notes: list[str]
    undecided: str = ""
    recording: Mapping[str, Any] | None = None

    @property
    def same(self) -> bool | None:
        """True if all requests agree on both sides, None if unknown."""
        if any(row.same is False for row in self.rows):
            return False
        return None if self.undecided or any(row.same is None for row in self.rows) else True


def on_server(scenario: Scenario, profile: str, binary: Path, gguf: Path, layers: str = "",
              tolerance: float | None = None, build: str = "",
              kind: type[LlamaServer] = LlamaServer, seed: int = 0) -> Verification:  # fmt: skip
    """Start a server with the scenario's options and verify on it; its log is read unless ``kind`` is QuietServer.
    ``build``: name of the server's build, if known; ``seed``: of the tokens. Raise BadInput."""
    check_images(scenario)
    facts = from_file(gguf, layers)
    ours, notes = _for_model(scenario, profile, facts, scenario.server)
    if ours is None:
        return Verification([], facts.layers, profile, [], notes[0])
    player = Player(ours, seed, vocabulary=facts.vocabulary)
    rounding = tolerance if tolerance is not None else _rounding(facts)
    start = ServerStart(binary, gguf, tuple(player.write(ours.server)), build, base_flags(facts.layers))
    with Recorder(start, rounding=rounding, server=kind) as recorder:
        for _ in player.run(recorder.play):
            pass
        data = recorder.trace()
    return _compared(ours, data, profile, facts, [*notes, *player.notes])


def _rounding(facts: RealModelFacts) -> float:
    """Return the largest difference of log-probabilities that another order of summation causes."""
    if not facts.is_tiny:
        return ROUNDING
    if facts.layers in RECORDED_NEWEST:
        return RECORDED_NEWEST[facts.layers]
    return AMPLIFIED if find_model(facts.layers).arch == "gemma3" else ROUNDING


def on_url(scenario: Scenario, profile: str, remote: Remote, layers: str = "",
           given: Mapping[str, Option] | None = None) -> Verification:  # fmt: skip
    """Verify on a running server. ``given``: its options according to the user; all others are those that it reports,
    or the real defaults. Raise BadInput."""
    facts = from_server(remote.props, remote.models, layers)
    server, assumed = _options(scenario, remote, given or {})
    ours, notes = _for_model(scenario, profile, facts, server)
    if ours is None:
        return Verification([], facts.layers, profile, assumed, notes[0])
    if any(step.action is not None and step.action.do == "restart" for step in ours.steps):
        return Verification(
            [], facts.layers, profile, assumed, "the scenario restarts the server, which --url cannot do"
        )
    data, said = _played(ours, remote, facts)
    return _compared(ours, data, profile, facts, [*assumed, *notes, *said])


def record_url(scenario: Scenario, remote: Remote, layers: str,
               given: Mapping[str, Option]) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
    """Return the recording of a scenario, run unchanged on a running server, and notes. Raise BadInput."""
    facts = from_server(remote.props, remote.models, layers)
    server, assumed = _options(scenario, remote, given)
    data, notes = _played(replace(scenario, server=server), remote, facts)
    return data, [*assumed, *notes]


def _played(scenario: Scenario, remote: Remote, facts: RealModelFacts) -> tuple[dict[str, Any], list[str]]:
    """Run on a running server; return a recording without the server's log, and notes."""
    check_images(scenario)
    cannot = remote.clear()
    player = Player(scenario, remote.seed(), vocabulary=facts.vocabulary)
    try:
        for _ in player.run(remote.play):
            pass
        remote.compare_all()
    finally:
        remote.restore_adapters()
    return {"engine": "llama.cpp", "commit": remote.build, "model": _file(facts), "name": scenario.id,
            "workload": scenario.id, "seed": 0, "note": None, "log": False, "flags": player.write(scenario.server),
            "base_flags": [], "env": {}, "server": {"n_slots": remote.slots}, "inexact": remote.inexact,
            "steps": remote.steps}, [*cannot, *player.notes]  # fmt: skip


def _file(facts: RealModelFacts) -> str:
    """Return the name of a model file by which a recording's reader finds its layers."""
    return f"tiny-{facts.layers.replace(' ', '')}.gguf"


def _for_model(scenario: Scenario, profile: str, facts: RealModelFacts,
               server: Mapping[str, Option]) -> tuple[Scenario | None, list[str]]:  # fmt: skip
    """Return the scenario for this model and these options, and notes on changes; None with the reason if it fails."""
    try:
        ours, said = fitted(scenario, profile, facts.layers, server)
    except BadInput as bad:
        return None, [bad.cause]
    notes = [f"written for the model {scenario.model}, compared on {facts.layers}"] if _other(scenario, facts) else []
    if not facts.is_tiny:
        notes.append("state sizes differ from the model's: evictions of the prompt cache by size are not compared")
    return ours, [*notes, *([said] if said else [])]


def _other(scenario: Scenario, facts: RealModelFacts) -> bool:
    def layers(name: str) -> str:
        try:
            return find_model(name).name
        except BadInput:
            return name

    return layers(scenario.model) != layers(facts.layers)


def _options(scenario: Scenario, remote: Remote, given: Mapping[str, Option]) -> tuple[dict[str, Option], list[str]]:
    """Return the options of a running server (given, reported, or real defaults), and a note on the assumed options."""
    manual = ENGINES[scenario.engine].manual
    server = {flag.name: flag.default for flag in manual.flags}
    unified = bool(given.get("kv_unified", remote.slots == 4 and "parallel" not in given))
    server |= {"parallel": remote.slots, "kv_unified": unified,
               "ctx_size": remote.context * (1 if unified else remote.slots), **given,
               **_adapters(scenario, remote)}  # fmt: skip
    assumed = f"assumed server options: defaults, {remote.slots} slots{' with a unified cache' if unified else ''}"
    return server, [f"{assumed}; change them with --set"]


def _adapters(scenario: Scenario, remote: Remote) -> dict[str, Option]:
    """Return the option with the scenario's adapters. Raise BadInput unless the server has as many with equal
    scales."""
    manual = ENGINES[scenario.engine].manual
    wanted = str(scenario.server[manual.adapter_scales]) if manual.adapter_lists(scenario.server) else ""
    if not wanted:
        return {}
    if "@" in wanted:
        raise BadInput("adapters that tokens of a prompt activate have other tokens in the files of a running server",
                       hint="use --server BIN --model GGUF with a model of cachesim", file=scenario.file)  # fmt: skip
    found, needed = remote.adapter_scales(), [float(scale) for scale in wanted.split(",")]
    if found != needed:
        said = ", ".join(f"{scale:g}" for scale in found) or "none"
        flags = ",".join(f"FILE{number}:{scale:g}" for number, scale in enumerate(needed))
        raise BadInput(f"expected a server with adapters of the scales {wanted}, found {said}",
                       hint=f"start it with --lora-scaled {flags}; each must change the model's answers",
                       file=remote.client.url)  # fmt: skip
    return {manual.adapter_scales: wanted}


def _compared(
    ours: Scenario, data: Mapping[str, Any], profile: str, facts: RealModelFacts, notes: list[str]
) -> Verification:
    texts = [step.text for step in ours.steps]
    found = compare_requests({**data, "model": _file(facts)}, profile, texts, facts.is_tiny)
    return Verification(found, facts.layers, profile, list(dict.fromkeys(notes)), recording=data)


def as_data(found: Verification) -> dict[str, Any]:
    """Return the result as plain data."""
    requests = [{**row._asdict(), "ours": row.ours._asdict(), "theirs": row.theirs._asdict()} for row in found.rows]
    return {"same": found.same, "model": found.model, "profile": found.profile, "undecided": found.undecided,
            "notes": found.notes, "requests": requests}  # fmt: skip
