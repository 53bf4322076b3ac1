"""A recording as the log that its server would have written at a verbosity: the lines of its events, and the timings.

The templates are those that recordings are read with (`engines/llama_cpp/log_events.py`). Timings are printed with the
counts of the answer and with times of zero. `tests.live.logs` compares the output line by line with logs of real
servers.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Iterator, Mapping

from cachesim.engines.llama_cpp.flags import read_flags
from cachesim.engines.llama_cpp.log_events import EVENTS

BASE = {"slot_by_id", "slot_by_lcp", "slot_by_lru", "launch", "release", "ctx_shift", "need_one", "pc_evict",
        "pc_evict_tokens", "pc_too_big", "ckpt_evict", "kv_full", "slot_purge", "pc_load_failed", "cancel",
        "reuse_unsupported", "ckpt_append", "ckpt_from_file"}  # fmt: skip
"""Events that are printed at the default verbosity, 3."""
DEBUG = {"do_ckpt", "reuse_result", "spec_ckpt", "spec_restore", "spec_step", "kv_purge"}
"""Events that are printed at verbosity 5 only."""
WARNED = {"ckpt_evict", "ctx_shift", "need_one", "pc_evict", "pc_evict_tokens", "pc_too_big", "slot_purge", "cancel",
          "pc_load_failed", "kv_full", "reuse_unsupported"}  # fmt: skip
FUNCTIONS = {
    **dict.fromkeys(("slot_by_id", "slot_by_lcp", "slot_by_lru", "slot_sim", "slot_skip_busy", "slot_skip_empty",
                     "pc_begin"), "get_availabl"),
    "pc_save": "prompt_save", **dict.fromkeys(("pc_already", "pc_too_big", "pc_obsolete", "pc_evict"), "alloc"),
    **dict.fromkeys(("pc_search", "pc_cand", "pc_load", "pc_load_failed"), "load"),
    **dict.fromkeys(("pc_evict_tokens", "pc_state", "pc_entry"), "update"),
    "slot_purge": "try_clear_id", "slot_clear": "prompt_clear", "idle_save": "process_sing", "launch": "launch_slot_",
    **dict.fromkeys(("ckpt_create", "ckpt_evict", "ckpt_too_close", "ckpt_supersede"), "create_check"),
    "ckpt_append": "save_slot_ch", "copy_to_child": "decode",
    "ckpt_from_file": "load_slot_ch", "release": "release", "cancel": "remove_waiti", "kv_full": "decode",
}  # fmt: skip
"""The function that speaks, cut as the server cuts it; the others are a lambda, `operator()`."""
BY_SERVER = {"pc_begin", "pc_save", "pc_already", "pc_too_big", "pc_obsolete", "pc_evict", "pc_evict_tokens",
             "pc_search", "pc_cand", "pc_load", "pc_load_failed", "pc_state", "pc_entry", "cancel", "kv_full",
             "slot_purge"}  # fmt: skip
BEFORE = {"slot_by_id", "slot_by_lcp", "slot_by_lru", "slot_sim", "slot_skip_busy", "slot_skip_empty", "idle_save"}
"""Said of a slot before the task is in it."""
WIDTHS = {"pc_cand": {"n_tokens": 7, "lcp": 7}, "pc_entry": {"n_tokens": 7, "checkpoints": 2, "mib": 9}}
WORDS = {"pc_entry": "0x555500000000", "ckpt_append": "slot.bin", "ckpt_from_file": "slot.bin",
         "full_reprocess": "https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)"}  # fmt: skip
"""What stands where an event holds nothing."""
_PLACE = re.compile(r"\{(\w*)\}")


def write_log(recording: Mapping[str, Any], verbosity: int) -> Iterator[str]:
    """The lines of the log, at verbosity 3 (the default) or 4."""
    yield from write_start(recording, verbosity)
    yield from write_steps(recording["steps"], verbosity)


def write_start(recording: Mapping[str, Any], verbosity: int) -> Iterator[str]:
    """What the server says of itself, as far as a recording holds it."""
    server, flags = recording["server"], read_flags(recording["flags"]).options
    unified = str(server["kv_unified"]).lower()
    slots = f"n_slots = {server['n_slots']}, n_ctx_slot = {server['n_ctx_slot']}, kv_unified = '{unified}'"
    load = "0.00.002.000 I srv    load_model:"
    if verbosity < 4:
        yield f"{load} initializing, {slots}"
        return
    yield f"0.00.000.000 I print_info: n_swa                 = {server['n_swa']}"
    for name in ("n_ctx_seq", "n_batch", "n_ubatch"):
        yield f"0.00.001.000 I llama_context: {name:<13} = {server[name]}"
    yield f"{load} initializing, {slots}"
    ram, most = flags.get("cache_ram", 8192), flags.get("ctx_checkpoints", 32)
    limit = "no limit" if ram < 0 else f"{ram} MiB"
    yield f"{load} prompt cache is enabled, size limit: {limit}" if ram else (
        f"{load} prompt cache is disabled - use `--cache-ram N` to enable it")
    step = flags.get("checkpoint_min_step", 8192)
    yield f"{load} context checkpoints enabled, max = {most}, min spacing = {step}" if most else (
        f"{load} context checkpoints disabled")


def write_steps(steps: Iterable[Mapping[str, Any]], verbosity: int) -> Iterator[str]:
    """The lines of some steps of a recording."""
    for number, step in enumerate(steps):
        yield from _step(step, 1000 * number, verbosity)


def _step(step: Mapping[str, Any], task: int, verbosity: int) -> Iterator[str]:
    waiting = list(_answers(step))
    running: dict[int, int] = {}                                 # slot -> its task
    children: set[int] = set()
    for event in step.get("events", ()):
        kind, slot = event["ev"], event.get("slot", 0)
        if kind == "launch":
            running[slot] = task + event.get("task", 0)
            children = children | {slot} if event.get("is_child") else children - {slot}
        if kind in DEBUG or (verbosity < 4 and kind not in BASE | {"warn", "error"}):
            continue
        if kind == "release":
            mine = next((one for one in waiting if one.get("id_slot") == slot), None)
            if mine is not None:
                waiting.remove(mine)
            if mine is not None and "predicted_n" in mine:
                yield from _timings(mine, slot, running.get(slot, task))
        if (text := _text(event)) is not None:
            yield _line(kind, text, slot, -1 if kind in BEFORE else running.get(slot, -1))
        if kind == "need_one":
            yield _line(kind, f"n_past was set to {event['n_past'] - 1}", slot, running.get(slot, -1))
        if kind == "release" and slot not in children:           # a child's task stays in its slot
            running.pop(slot, None)


def _answers(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the responses of a step. That of a client that hung up in a simulated run has a slot alone."""
    for member in step.get("steps", [step]):
        answer = member.get("response", {})
        if (answer.get("status") == 200 and "predicted_n" in answer) or answer.keys() == {"id_slot"}:
            yield answer
            yield from answer.get("completions", ())


def _text(event: Mapping[str, Any]) -> str | None:
    """Return the message of an event; None if this build has no template for it."""
    if event["ev"] in ("warn", "error"):
        return str(event["text"])
    widths, other = WIDTHS.get(event["ev"], {}), WORDS.get(event["ev"], "0")
    for line in EVENTS:
        if line.ev == event["ev"] and all(name in event for name in _PLACE.findall(line.template) if name):
            return _PLACE.sub(
                lambda place: f"{_number(event[place[1]]):>{widths.get(place[1], 0)}}" if place[1] else other,
                line.template,
            )
    return None


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _line(kind: str, text: str, slot: int, task: int) -> str:
    head = f"0.00.003.000 {'W' if kind in WARNED else 'I'}"
    function = FUNCTIONS.get(kind, "operator()")
    if kind in ("warn", "error"):
        return f"0.00.003.000 {kind[0].upper()} {text}"          # who says it is not recorded
    if kind in BY_SERVER:
        return f"{head} srv  {function:>12}: {text}"
    return f"{head} slot {function:>12}: id {slot:>2} | task {task} | {text}"


def _timings(answer: Mapping[str, Any], slot: int, task: int) -> Iterator[str]:
    head = f"0.00.004.000 I slot print_timing: id {slot:>2} | task {task} | "
    rate = "(    0.00 ms per token, inf tokens per second)"
    prompt, made = answer["prompt_n"], answer["predicted_n"]
    yield f"{head}prompt eval time =       0.00 ms / {prompt:>5} tokens {rate}"
    yield f"{head}       eval time =       0.00 ms / {made:>5} tokens {rate}"
    yield f"{head}      total time =       0.00 ms / {prompt + made:>5} tokens"
