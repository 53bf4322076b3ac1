"""A recording as the log that its server would have written at a verbosity: the lines of its events, and the timings.

The templates are those that recordings are read with (`engines/llama_cpp/log.py`); timings are printed with the counts
of the answer and with times of zero, which nobody reads.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

from cachesim.engines.llama_cpp.log import EVENTS

BASE = {"slot_by_id", "slot_by_lcp", "slot_by_lru", "launch", "release", "ctx_shift", "need_one", "pc_evict",
        "pc_evict_tokens", "pc_too_big", "ckpt_evict", "kv_full"}  # fmt: skip
"""Events that are printed at the default verbosity, 3."""
DEBUG = {"do_ckpt", "reuse_result", "spec_ckpt", "spec_restore", "spec_step", "kv_purge"}
"""Events that are printed at verbosity 5 only."""
BY_SERVER = {"pc_begin", "pc_save", "pc_already", "pc_too_big", "pc_obsolete", "pc_evict", "pc_evict_tokens",
             "pc_search", "pc_cand",
             "pc_load", "pc_load_failed", "pc_state", "pc_entry", "cancel", "kv_full"}  # fmt: skip
_PLACE = re.compile(r"\{(\w*)\}")


def write_log(recording: Mapping[str, Any], verbosity: int) -> Iterator[str]:
    """The lines of the log, at verbosity 3 (the default) or 4."""
    server = recording["server"]
    if verbosity > 3:
        yield f"0.00.000.000 I print_info: n_swa                 = {server['n_swa']}"
        for name in ("n_ctx_seq", "n_batch", "n_ubatch"):
            yield f"0.00.001.000 I llama_context: {name:<21} = {server[name]}"
    unified = str(server["kv_unified"]).lower()
    slots = f"n_slots = {server['n_slots']}, n_ctx_slot = {server['n_ctx_slot']}, kv_unified = '{unified}'"
    yield f"0.00.002.000 I srv    load_model: initializing, {slots}"
    task = 0
    for step in recording["steps"]:
        yield from _step(step, task, verbosity)
        task += 100


def _step(step: Mapping[str, Any], task: int, verbosity: int) -> Iterator[str]:
    answer = step.get("response", {})
    slot = answer.get("id_slot", 0)
    for event in step.get("events", ()):
        kind, mine = event["ev"], {**event, "slot": event.get("slot", slot)}
        if kind in DEBUG or (verbosity < 4 and kind not in BASE):
            continue
        if kind == "release" and not step.get("cancelled") and answer.get("status") == 200:
            yield from _timings(answer, mine["slot"], task)
        if (text := _text(mine)) is not None:
            yield _line(kind, text, mine["slot"], -1 if kind.startswith("slot_by") or kind == "slot_sim" else task)


def _text(event: Mapping[str, Any]) -> str | None:
    """The message of an event; None for one that no template of this build has."""
    for line in EVENTS:
        if line.ev == event["ev"] and all(name in event for name in _PLACE.findall(line.template) if name):
            return _PLACE.sub(lambda place: _number(event[place[1]]) if place[1] else "0", line.template)
    return None


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _line(kind: str, text: str, slot: int, task: int) -> str:
    if kind in BY_SERVER:
        return f"0.00.003.000 I srv          load: {text}"
    return f"0.00.003.000 I slot   operator(): id {slot:>2} | task {task} | {text}"


def _timings(answer: Mapping[str, Any], slot: int, task: int) -> Iterator[str]:
    head = f"0.00.004.000 I slot print_timing: id {slot:>2} | task {task} | "
    rate = "(    0.00 ms per token, inf tokens per second)"
    yield f"{head}prompt eval time =       0.00 ms / {answer['prompt_n']:>5} tokens {rate}"
    yield f"{head}       eval time =       0.00 ms / {answer['predicted_n']:>5} tokens {rate}"
