"""Layers and vocabulary of a real server's model, and comparison of both sides request by request.

Source: llama.cpp src/llama-model.cpp (b11549): create_memory, and the keys that load_arch_hparams reads.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.base.gguf_header import read_gguf
from cachesim.base.untrusted_files import FILE, kind
from cachesim.engines.base import HTTP_OK, Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.registry import profiles
from cachesim.engines.shared.model_layers import layers_in
from cachesim.engines.shared.model_sizes import short_notation
from cachesim.engines.shared.newest_models import NEWEST
from cachesim.judging.compare_answer import Judge
from cachesim.replay.recorded_trace import TraceMember, TraceStep, make_trace
from cachesim.replay.replay import TraceReplay
from cachesim.replay.replay_result import ReplayResult
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.llama_server.server import BASE
from cachesim.tools.live.token_map import TINY, Vocabulary

# Comparison: the simulator replays what the real server received and generated.

ENDED_EARLY = "the real model ended an answer before its last token, which the simulator is not told"
DISCONNECTED = "the log does not show at which batch the server noticed a disconnect"
RACED = "the result depends on when the requests arrive"
LOST_ANSWER = "its answer may have been lost when the server ended at another request"
SIZES = ("size", "mib", "bytes", "limit")
"""Parts of the names of event fields that depend on the size of a model's states."""


class RequestResult(NamedTuple):
    """Outcome of a request: tokens reused and evaluated, HTTP status (0 = the process ended, -1 = the server goes on
    and never answers, None = unknown), and whether the answer equals a cold run's (None = unknown)."""

    cache_n: int | None
    prompt_n: int | None
    status: int | None
    equal: bool | None


UNKNOWN = RequestResult(None, None, None, None)
ENDED = 0                            # status of a request at which the process ended
NEVER_ANSWERED = -1                  # status of a request that a running server never answers


class ComparedRequest(NamedTuple):
    """A request on both sides."""

    number: int
    text: str
    ours: RequestResult
    theirs: RequestResult
    same: bool | None                    # None = undecided
    why: str = ""                        # reason for undecided
    first: str = ""                      # first differing decision or answer field, "" = none or unknown
    far: float | None = None             # largest log-probability difference of the real answer from a cold run


def rows(data: Mapping[str, Any], profile: str, texts: Sequence[str], sized: bool) -> list[ComparedRequest]:
    """Return a row for every request of a recording. ``texts``: the steps in words. ``sized``: states of the real model
    have the sizes that the simulator counts. Raise BadInput."""
    trace = make_trace(Path("the recording"), {**data, "profile": profile.partition("@")[2]}, profiles())
    found: list[ComparedRequest] = []
    with TemporaryDirectory(prefix="cachesim-") as folder:
        run = _Beside(trace, "provenance", Path(folder), sized)
        number, raced = 0, ""
        for step, raw in zip(trace.steps, data["steps"], strict=True):
            first = run.first(step)
            members = raw.get("steps", [raw])
            race = bool(raw.get("racy")) and not trace.has_log
            raced = "" if step.action == "restart" else raced or (RACED if race else "") or _unknown_end(members, first)
            if step.members:
                for n, (member, one) in enumerate(zip(step.members, members, strict=True), number):
                    theirs = _theirs(member, one, raw)
                    ours, far = run.side_of(member), max(_gaps(one), default=None)
                    if step.stuck and not first and ours == UNKNOWN:
                        ours = ours._replace(status=NEVER_ANSWERED)
                    same, why = (False, "") if first and not race else _same(ours, theirs, race, far)
                    if run.unsearched:
                        same, why = None, run.unsearched
                    elif same is False and raced:
                        same, why, first = None, raced, ""
                    elif same is False and not first and theirs.status == ENDED:
                        same, why = None, LOST_ANSWER       # both end in this step; another thread sends replies
                    found.append(ComparedRequest(n, texts[n], ours, theirs, same, why, first, far))
            number += len(members)
    return found


def _unknown_end(members: Sequence[Mapping[str, Any]], first: str) -> str:
    """Return why differences from this step on say nothing, "" if they count: a model ended an answer by itself, or a
    client disconnected and the first difference is one of decisions, or of where one of several completions ended.
    ``first``: the first difference."""
    stops = [(member.get("response") or {}).get("stop_type") for member in members]
    if "eos" in stops:
        return ENDED_EARLY
    left = [request for member in members if "cancel_after" in (request := member.get("request") or {})]
    is_shared = any(int(request.get("n_cmpl", 1)) > 1 for request in left)     # whose release is whose is not printed
    is_open = first.startswith("decision") or (is_shared and first.startswith("release"))
    return DISCONNECTED if left and is_open else ""


class _Beside(TraceReplay):
    """A replay that records the simulator's answers, and ignores sizes if those of the real model differ."""

    def __init__(self, trace: Any, mode: str, folder: Path, sized: bool) -> None:
        self.sides: dict[int, tuple[Answer, RequestResult]] = {}
        self.judge: Judge | None = None
        self.unsearched = ""            # reason why the requests of the step are undecided, "" = they are decided
        self.sized = sized
        super().__init__(trace, mode, folder, self._look)

    def _look(self, server: Server, request: Request, answer: Answer) -> None:
        """Record the answer. The verdict is compared later, in the rows."""
        self.judge = self.judge or Judge(server.model)
        slot = server.inspection.live(answer.id_slot) if answer.status == HTTP_OK and not answer.died else None
        equal = self.judge.judge(request, answer, slot).equal_cold
        told = self._as_recorded(request, answer, equal)           # the other side's cold server shifts like it
        self.sides[id(request)] = answer, RequestResult(answer.cache_n, answer.prompt_n, None, told)

    def side_of(self, member: TraceMember) -> RequestResult:
        """Return the simulated result of a request whose step is done: one of its completions may have failed last."""
        found = self.sides.get(id(member.request))
        if found is None:
            return UNKNOWN
        answer, result = found
        return result._replace(status=ENDED if answer.died else answer.reply_status)

    def first(self, step: TraceStep) -> str:
        """Replay a step; return the first difference, "" for none. The last lines of a process that ends may be
        missing, since another thread writes its log."""
        out = ReplayResult(self.trace)
        self.step(out, step)
        self.unsearched = out.why if out.unsearched is not None else ""
        if out.first and step.died and self.server.dead and "event" in out.first and out.first["recorded"] is None:
            return ""
        return _said(out.first, self.sized) if out.first else ""


def _said(first: Mapping[str, Any], sized: bool) -> str:
    theirs, ours = first.get("recorded"), first.get("ours")
    if "field" in first:
        return f"{first['field']}: {theirs} there, {ours} here"
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping) and theirs.get("ev") == ours.get("ev"):
        names = [name for name in theirs if theirs[name] != ours.get(name)]
        if not sized and all(any(part in name for part in SIZES) for name in names):
            return ""
        return f"{theirs['ev']}: " + ", ".join(f"{name} {theirs[name]} there, {ours.get(name)} here" for name in names)
    there, here = (one.get("ev") if isinstance(one, Mapping) else "nothing" for one in (theirs, ours))
    return f"decision {first.get('event')}: {there} there, {here} here"


def _same(ours: RequestResult, theirs: RequestResult, race: bool, far: float | None) -> tuple[bool | None, str]:
    """True if both sides agree in all known values of the real side; None with the reason if undecided."""
    if ours == UNKNOWN:
        return None, "the simulator gave no answer"
    if theirs.status is None:
        return None, "the client disconnected"
    fields = [a == b for a, b in zip(ours[:3], theirs[:3], strict=True) if b is not None]
    if not all(fields):
        return (None, RACED) if race else (False, "")
    if ours.equal is False and theirs.equal and far:
        return None, f"wrong here; the real answer differs from a cold run by {far:g}, which counts as rounding"
    if ours.equal is None or theirs.equal is None:
        unanswered = ours.status != HTTP_OK
        return (True, "") if unanswered else (None, "unknown whether the answer equals a cold run's")
    return ours.equal == theirs.equal or ours.status != HTTP_OK, ""


def _theirs(member: TraceMember, raw: Mapping[str, Any], step: Mapping[str, Any]) -> RequestResult:
    response = raw.get("response") or {}
    if "died" in step and not response:
        return RequestResult(None, None, ENDED, False)
    if not response and step.get("stuck"):
        return UNKNOWN._replace(status=NEVER_ANSWERED)
    if response.get("cancelled") or not response:
        return UNKNOWN
    status = int(response.get("status", HTTP_OK))
    equal = None if member.inexact is None or "cold" not in raw else not member.inexact
    return RequestResult(response.get("cache_n"), response.get("prompt_n"), status, equal)


def _gaps(raw: Mapping[str, Any]) -> Iterator[float]:
    for one in (raw, *(raw.get("response") or {}).get("completions", ())):
        if "max_dlogprob" in (one.get("cold") or {}):
            yield float(one["cold"]["max_dlogprob"])


RECORDED_NEWEST: Mapping[str, float] = {
    "deepseek4": 2e-3, "deepseek32": 2e-3, "deepseek32one": 2e-3, "qwen4exp": 2e-3, "dots3note": 5e-3,
    "minimax-m3": 5e-2,
}  # fmt: skip
"""Recorded tiny model with one of the newest memories -> largest rounding difference of log-probabilities."""


def base_flags(layers: str) -> tuple[str, ...]:
    """Return the constant flags of a server with this tiny model: MiniMax M3 chooses blocks only with flash
    attention."""
    flash = tuple("on" if before == "-fa" else word for before, word in zip(("", *BASE), BASE, strict=False))
    return flash if layers == "minimax-m3" else BASE


LAYERS: Mapping[str, str] = {
    "llama": "A", "qwen2": "A", "qwen3": "A", "qwen3moe": "A", "mistral3": "A", "phi3": "A", "glm4": "A",
    "deepseek2": "A",
    "gemma2": "W{window} A", "gemma3": "W{window} A", "gemma3n": "W{window} A", "gpt-oss": "W{window} A",
    "mamba": "S", "mamba2": "S", "granitehybrid": "SA", "jamba": "SA", "nemotron_h": "SA", "falcon-h1": "H",
    "qwen3next": "GA", "qwen35": "qwen35-GA", "qwen35moe": "qwen35-GA", "lfm2": "CA", "lfm2moe": "CA",
}  # fmt: skip
"""Minimal layers with the kinds of memory of an architecture."""
TOKENS = "tokenizer.ggml.tokens"
LEAST, MOST = 1_000, 20_000       # tokens of a real vocabulary that are used for words


class RealModelFacts(NamedTuple):
    """A real model: its layers in cachesim's notation, its vocabulary, and whether it is a tiny model, whose stored
    states have the sizes that the simulator counts."""

    layers: str
    vocabulary: Vocabulary
    is_tiny: bool


def from_file(file: Path, layers: str = "") -> RealModelFacts:
    """Read a model file. ``layers``: as given by the user. Raise BadInput if it is not a GGUF, or for an architecture
    with unknown memory."""
    if ours := _ours(file.name):
        return RealModelFacts(layers or ours, TINY, True)
    keys = read_gguf(file, (TOKENS,))
    arch = str(keys.get("general.architecture", ""))
    if arch in NEWEST and not layers:
        layers = short_notation(layers_in(file))
    found = layers or LAYERS.get(arch, "").format(window=keys.get(f"{arch}.attention.sliding_window", 0))
    if not found:
        raise BadInput(f"unknown layers of architecture {quoted(arch)}", file=str(file),
                       hint="name them with --layers, such as 'W1024 A' or GA")  # fmt: skip
    tokens = keys.get(TOKENS)
    size = len(tokens) if isinstance(tokens, list) else 0
    return RealModelFacts(found, real_vocabulary(size or MOST), False)


def from_server(props: Mapping[str, Any], models: Mapping[str, Any], layers: str = "") -> RealModelFacts:
    """Read `/props` and `/v1/models` of a running server. Raise BadInput for unknown layers."""
    file = Path(str(props.get("model_path") or ""))
    if (_ours(file.name) or kind(file) == FILE) and file.suffix == ".gguf":
        return from_file(file, layers)
    if not layers:
        raise BadInput("the server does not report the layers of its model", hint="name them: --layers 'W1024 A'")
    meta = ((models.get("data") or [{}])[0].get("meta") or {})  # fmt: skip
    return RealModelFacts(layers, real_vocabulary(int(meta.get("n_vocab") or MOST)), False)


def real_vocabulary(size: int) -> Vocabulary:
    """Return tokens from the middle of a vocabulary, which has no special tokens there. Their texts are unknown."""
    first = min(LEAST, size // 4)
    return Vocabulary(tuple(range(first, min(first + MOST, size - size // 8))), (), (), {})


def _ours(name: str) -> str:
    """Return the notation in the name of a tiny model, "" for another file."""
    stem = name.removeprefix("tiny-").removesuffix(".gguf")
    if stem in RECORDED_NEWEST and name.startswith("tiny-"):
        return stem
    try:
        return find_model(stem).name if name.startswith("tiny-") else ""
    except BadInput:
        return ""
