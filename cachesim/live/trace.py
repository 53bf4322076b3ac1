"""What did a real server do? Reads a recorded trace into requests, answers and events; data, never trusted.

Format: one JSON object with a header and steps, described in the README beside the recorded traces. What this build
cannot replay yet is named (``out``), so that it is reported as undecided and never as agreement.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from cachesim.engines.base import Request
from cachesim.engines.registry import COMMITS
from cachesim.errors import BadInput, nearest
from cachesim.live.vocab import starts_of, token_at_byte, tokenize

MAX_BYTES = 64 << 20
MAX_DEPTH = 32
ENGINES = {"llama.cpp": "llama_cpp", "ik_llama.cpp": "ik_llama"}
VALUES = {"-c": "ctx_size", "-b": "batch_size", "-ub": "ubatch_size", "-np": "parallel", "--cache-ram": "cache_ram",
          "--ctx-checkpoints": "ctx_checkpoints", "--checkpoint-min-step": "checkpoint_min_step",
          "--slot-prompt-similarity": "slot_prompt_similarity", "--cache-reuse": "cache_reuse"}
SWITCHES: dict[str, tuple[str, bool]] = {
    "-kvu": ("kv_unified", True), "-no-kvu": ("kv_unified", False), "--swa-full": ("swa_full", True),
    "--no-cache-idle-slots": ("cache_idle_slots", False), "--context-shift": ("context_shift", True)}
LATER = {
    "--spec-type": "drafts", "-md": "a draft model", "--context-shift": "context shift", "--cache-reuse": "chunk reuse"}
CHAT = [("user", "<|im_start|>user\n"), ("assistant", "<|im_start|>assistant\n")]


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step: what was sent, what came back, what was logged. ``request`` None = this build cannot send it."""

    number: int
    request: Request | None
    response: Mapping[str, Any]
    events: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Trace:
    """A recording. ``flags`` are server options by name; ``inexact`` numbers of the steps whose answer differed from
    a cold run; ``out`` = why this build cannot replay it, "" if it can."""

    file: Path
    profile: str
    model: str
    name: str
    flags: Mapping[str, Any]
    server: Mapping[str, Any]
    inexact: frozenset[int]
    steps: list[TraceStep] = field(default_factory=list)
    out: str = ""


def read_trace(path: Path, profiles: Mapping[str, Any]) -> Trace:
    """Read and check one trace. Raises BadInput for anything that is not one."""
    data = _load(path)
    try:
        return _trace(path, data, profiles)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        what = f"no '{error.args[0]}'" if isinstance(error, KeyError) else str(error)
        raise BadInput(f"not a trace as described in its README: {what}", file=str(path)) from None


def _load(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise BadInput(f"{size} bytes, a trace has at most {MAX_BYTES}", file=str(path))
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(error.strerror or "cannot be read", file=str(path)) from None
    except UnicodeDecodeError:
        raise BadInput("not UTF-8 text", file=str(path)) from None
    if not text.strip():
        raise BadInput("empty file", file=str(path))
    if _depth(text) > MAX_DEPTH:
        raise BadInput(f"nested deeper than {MAX_DEPTH} levels", file=str(path))
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"broken or truncated JSON: {error.msg}", file=str(path), line=error.lineno) from None
    if not isinstance(data, dict):
        raise BadInput("a trace is one JSON object", file=str(path))
    return data


def _depth(text: str) -> int:
    """Deepest nesting of brackets, strings included: an upper bound that needs no parser."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    deep = most = 0
    quoted = skip = False
    for c in text:
        if skip:
            skip = False
        elif quoted:
            skip, quoted = c == "\\", c != '"'
        elif c == '"':
            quoted = True
        elif c in "[{":
            deep += 1
            most = max(most, deep)
        elif c in "]}":
            deep -= 1
    return most


def _trace(path: Path, data: dict[str, Any], profiles: Mapping[str, Any]) -> Trace:
    profile = _profile(path, data)
    why = "" if profile in profiles else f"rule set {profile} is not in this build"
    flags, later = _flags(path, data["flags"])
    if data["server"].get("n_rs_seq"):
        later = later or "drafts"
    spans = data["commit"] not in COMMITS and "pr24143" not in profile
    steps = [_step(step, spans) for step in data["steps"]]
    later = later or next((s for s in map(_later, data["steps"]) if s), "")
    model = data["model"].removeprefix("tiny-").removesuffix(".gguf")
    out = why or (f"needs {later}" if later else "")
    inexact = frozenset(int(str(entry["i"]).split(".")[0]) for entry in data["inexact"])
    return Trace(path, profile, model, data["name"], flags, data["server"], inexact, steps, out)


def _profile(path: Path, data: dict[str, Any]) -> str:
    engine, commit = data["engine"], data["commit"]
    if engine not in ENGINES:
        raise BadInput(f"unknown engine '{engine}'", file=str(path), line=1, hint=nearest(str(engine), ENGINES))
    if "profile" in data:
        return f"{ENGINES[engine]}@{data['profile']}"
    if commit not in COMMITS:
        raise BadInput(f"unknown commit '{commit}'", file=str(path), line=1, hint=nearest(str(commit), COMMITS))
    return COMMITS[commit]


def _flags(path: Path, words: list[str]) -> tuple[dict[str, Any], str]:
    """Server options, and the first flag that this build does not simulate."""
    out: dict[str, Any] = {}
    later = ""
    at = 0
    while at < len(words):
        word = words[at]
        later = later or LATER.get(word, "")
        if word in VALUES:
            at += 1
            out[VALUES[word]] = float(words[at]) if word == "--slot-prompt-similarity" else int(words[at])
        elif word in SWITCHES:
            name, value = SWITCHES[word]
            out[name] = value
        elif word in LATER or word.startswith("--spec"):
            at += 1
        else:
            raise BadInput(f"unknown flag '{word}'", file=str(path), line=1, hint=nearest(word, [*VALUES, *SWITCHES]))
        at += 1
    return out, later


def _later(step: Mapping[str, Any]) -> str:
    """What of a step this build cannot do."""
    if step["op"] not in ("completion", "chat"):
        return {"slot": "slot files", "parallel": "parallel requests"}.get(step["op"], f"operation {step['op']}")
    names = {"cancel_after": "a cancelled request", "n_cache_reuse": "chunk reuse", "n_cmpl": "several completions"}
    return next((text for name, text in names.items() if name in step["request"]), "")


def _step(step: Mapping[str, Any], spans: bool) -> TraceStep:
    response = step.get("response") or {}
    body = step.get("request") or {}
    request = _request(step["op"], body, response, spans) if "prompt" in body and not _later(step) else None
    return TraceStep(int(step["i"]), request, response, list(step.get("events", [])))


def _request(op: str, body: Mapping[str, Any], response: Mapping[str, Any], spans: bool) -> Request:
    prompt = tuple(int(token) for token in body["prompt"])
    starts: tuple[int, ...] = ()
    byte_pos = None
    if body.get("message_spans") and spans:
        users = [int(span["pos"]) for span in body["message_spans"] if span["role"] == "user"]
        byte_pos = users[-1] if users else None
        starts = tuple(token_at_byte(prompt, byte) for byte in users)
    elif op == "chat" or body.get("message_delimiters"):
        marks = CHAT if op == "chat" else [(d["role"], d["delimiter"]) for d in body["message_delimiters"]]
        starts = starts_of(prompt, [(role, tokenize(text)) for role, text in marks])
    return Request(
        prompt=prompt,
        n_predict=int(body.get("n_predict", body.get("max_tokens", -1))),
        forced=tuple(response.get("tokens", ())),
        cache_prompt=bool(body.get("cache_prompt", True)),
        id_slot=int(body.get("id_slot", -1)),
        user_starts=starts,
        byte_pos=byte_pos,
        n_keep=int(body.get("n_keep", 0)),
    )
