"""Shapes of recorded traces, checked before anything is used.

Unknown keys are refused: a misspelt key would be silently left out of the comparison. The known fields of a request are
those that a cache depends on and those that only choose the next token (the generated tokens are forced). Source:
FORMAT.md, "The file"; llama.cpp tools/server/README.md (3f545be).
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Mapping

from cachesim import events
from cachesim.base.errors import cut, nearest, quoted
from cachesim.base.json_shapes import (
    INT32,
    INT64,
    Shape,
    ShapeMismatch,
    anything,
    check,
    each,
    flag,
    integer,
    integers,
    number,
    one_of,
    optional,
    record,
    text,
    wanted,
)  # fmt: skip
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.vocab import PIECES

OPERATIONS = ("completion", "chat", "slot", "parallel", "restart", "lora")
ACTIONS = ("save", "restore", "erase")
KINDS_OF_TASKS = ("completion", "infill")
NAME_BYTES = 255                  # of a file
ROUNDING = 1e-3
"""Differences of log-probabilities up to this value come from another order of summation, not from other content."""

count = integer(0, INT32, "a count (0 to 2147483647)")
whole = integer(-INT32 - 1, INT32, "an integer of 32 bits")
texts = each(text, "a list of strings")
TOKENS = integers(0, len(PIECES) - 1, f"a token of the recorded models (0 to {len(PIECES) - 1})")
OBJECT = record({}, others=anything)
NOTHING = optional(record({}))


def step_number(value: Any) -> None:
    """Check a step number: 3, or "3.1" for a member of a group."""
    if type(value) is int and 0 <= value <= INT32:
        return
    parts = value.split(".") if type(value) is str and value.isascii() else []
    if len(parts) not in (1, 2) or not all(part.isdigit() and len(part) < 10 for part in parts):
        raise wanted("the number of a step", value)


def file_name(value: Any) -> None:
    """Check the name of a file; the part before its last slash is not used."""
    text(value)
    name = value.rpartition("/")[2]
    if name in ("", ".", "..") or not name.isprintable() or len(name.encode("utf-8", "replace")) > NAME_BYTES:
        raise wanted("the name of a file", value)


def slot_action(value: Any) -> None:
    """Check the name of a slot action."""
    if value not in ACTIONS:
        raise wanted("save, restore or erase", value)


def task_kind(value: Any) -> None:
    """Check the kind of a task that answers with tokens."""
    if value not in KINDS_OF_TASKS:
        raise wanted(" or ".join(KINDS_OF_TASKS), value)


# --- requests and answers ------------------------------------------------------------------------------------

SAMPLING = (
    "backend_sampling", "chat_template_kwargs", "dry_allowed_length", "dry_base", "dry_multiplier",
    "dry_penalty_last_n", "dry_sequence_breakers", "dynatemp_exponent", "dynatemp_range", "frequency_penalty",
    "grammar", "ignore_eos", "json_schema", "logit_bias", "logprobs", "min_keep", "min_p", "mirostat", "mirostat_eta",
    "mirostat_tau", "n_indent", "n_probs", "post_sampling_probs", "presence_penalty", "repeat_last_n",
    "repeat_penalty", "response_fields", "return_progress", "return_tokens", "samplers", "seed", "stream",
    "t_max_predict_ms", "temperature", "timings_per_token", "top_k", "top_logprobs", "top_n_sigma", "top_p",
    "typical_p", "xtc_probability", "xtc_threshold",
)  # fmt: skip
"""Fields of a request that choose tokens or the form of the response."""

_TOKEN = (-1, 99_999, f"a token of the recorded models (0 to {len(PIECES) - 1})")
PROMPT = one_of(integers(*_TOKEN), each(one_of(record({"image": text}, needs=("image",)), integer(*_TOKEN))))
"""Tokens of a prompt, and images by name. Some recordings send a token that no model has, -1 or 99999: the server
refuses it."""
SCALES = each(record({"id": whole, "scale": number}))
ADAPTER = record({"file": text, "scale": number, "alora_invocation_tokens": TOKENS}, needs=("scale",))

IMAGE = record({"sha256": text, "n_tokens": count, "n_pos": count, "nx": count, "ny": count, "png": text},
               needs=("sha256", "n_tokens", "n_pos"))

REQUEST = record({
    **dict.fromkeys(SAMPLING, anything),
    "prompt": PROMPT, "lora": SCALES, "form": text, "n_predict": whole, "max_tokens": whole, "cache_prompt": flag,
    "id_slot": whole, "n_keep": whole, "n_discard": whole, "n_cache_reuse": optional(whole), "n_cmpl": whole,
    "n": whole, "stop": one_of(text, texts), "cancel_after": count, "cancel_at_n": optional(whole),
    "messages": each(record({"role": text, "content": anything}, others=anything)),
    "message_spans": each(record({"role": text, "pos": count}, needs=("role", "pos"), others=anything)),
    "message_delimiters": each(record({"role": text, "delimiter": text}, needs=("role", "delimiter"))),
}, needs=("prompt",))  # fmt: skip

SLOT_REQUEST = record({"action": slot_action, "id_slot": whole, "filename": file_name}, needs=("action", "id_slot"))

_ANSWER: Mapping[str, Shape] = {
    **dict.fromkeys(("cache_n", "prompt_n", "predicted_n", "tokens_cached", "tokens_evaluated", "draft_n",
                     "draft_n_accepted"), count),
    "id_slot": whole, "truncated": flag, "stop_type": text, "tokens": TOKENS, "tokens_in_slot": TOKENS,
    "tokens_incomplete": flag, "tokens_in_slot_unknown": count, "text": text, "status": count, "error": anything,
}  # fmt: skip
RESPONSE = record({
    **_ANSWER, "cancelled": flag, "streamed_tokens_match": flag,
    "completions": each(record({**_ANSWER, "index": count, "cold": OBJECT})),
})  # fmt: skip
LORA_REQUEST = record({"set": SCALES}, needs=("set",))
SLOT_RESPONSE = record({
    **dict.fromkeys(("n_saved", "n_written", "n_restored", "n_read", "n_erased"), integer(0, INT64)),
    "success": flag, "status": count, "error": anything, "id_slot": whole, "filename": text, "timings": anything,
})  # fmt: skip


# --- events --------------------------------------------------------------------------------------------------


SWITCHES = ("is_child", "truncated", "yes")     # 0 and 1 in some logs, false and true in others


def _kinds() -> dict[str, tuple[type, ...]]:
    """Return the types that fields of events may have, by name, as in our own events."""
    types: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "bool": (bool,), "str": (str,)}
    found: dict[str, set[type]] = {}
    logged = [*vars(events).values(), *(one for engine in ENGINES.values() for one in engine.recorded.events())]
    for one in (one for one in logged if is_dataclass(one) and isinstance(one, type)):
        for field in fields(one):
            found.setdefault(field.name, set()).update(types.get(str(field.type).partition(" ")[0], ()))
    found.update((name, {bool, int}) for name in SWITCHES)
    found["f_keep"].add(str)                    # "-nan": the share of an empty slot
    return {name: tuple(kinds) for name, kinds in found.items() if kinds}


KINDS = _kinds()
_SCALARS = (int, float, bool, str)
_LEAST, _MOST = -INT64, 2 * INT64            # numbers of an event: some are printed without a sign


_fitting: set[tuple[Any, ...]] = set()   # kinds, names and types of events that fit: recordings are made of few
MOST_FITTING = 1000


def event(value: Any) -> None:
    """Check an event: an object with its kind under ``ev`` and plain values, of the right type if the field is
    known."""
    if type(value) is not dict:
        raise wanted("an object", value)
    kind = value.get("ev")
    form = (kind if type(kind) is str else None, *value, *map(type, value.values()))
    if form not in _fitting:
        _check_form(value)
        if len(_fitting) < MOST_FITTING:
            _fitting.add(form)
    for name, inner in value.items():
        if type(inner) is int and not _LEAST <= inner <= _MOST:
            raise wanted("a smaller number", inner).within(f".{cut(name)}")


NEEDED = {"new_prompt": ("n_tokens",), "release": ("n_tokens",), "spec_ckpt": ("n_tokens",),
          "spec_step": ("n_tokens", "accepted")}  # fmt: skip
"""Fields that are read, not only compared: the end of a request's events, and drafted tokens."""


def log(value: Any) -> None:
    """Check the list of logged events of a recorded step. If one is a ``spec_ckpt`` (memory saved before a draft),
    every ``spec_step`` must have the key ``drafted``. Raise Misfit."""
    each(event)(value)
    if any(one["ev"] == "spec_ckpt" for one in value):
        for i, one in enumerate(value):
            if one["ev"] == "spec_step" and "drafted" not in one:
                raise ShapeMismatch("missing key 'drafted'").within(f"[{i}]")


def _check_form(value: dict[str, Any]) -> None:
    if type(value.get("ev")) is not str:
        raise ShapeMismatch("missing key 'ev'") if "ev" not in value else wanted("a string", value["ev"]).within(".ev")
    for name in NEEDED.get(value["ev"], ()):
        if name not in value:
            raise ShapeMismatch(f"missing key '{name}'")
    for name, inner in value.items():
        if type(inner) not in KINDS.get(name, _SCALARS):
            what = " or ".join(kind.__name__ for kind in KINDS.get(name, _SCALARS))
            raise wanted(f"a value of type {what}", inner).within(f".{cut(name)}")


# --- steps and header ----------------------------------------------------------------------------------------

_STEP: Mapping[str, Shape] = {
    "i": step_number, "op": text, "why": optional(text), "conv": optional(text), "racy": flag, "stuck": flag,
    "events": log, "cold": optional(OBJECT), "after": count, "task": optional(count),
    "drafts": each(integers(0, INT32, "a count of tokens")), "generated": TOKENS, "launched": flag,
    "decodes": each(integers(0, INT32, "a place and a count of tokens")), "one_request": flag,
    "adapters": each(number), "kind": task_kind,
    "died": record({"fatal": one_of(text, texts)}, needs=("fatal",), others=anything),
}  # fmt: skip
COMPLETION = record({**_STEP, "request": REQUEST, "response": optional(RESPONSE)}, needs=("i", "op", "request"))
SLOT = record({**_STEP, "request": SLOT_REQUEST, "response": optional(SLOT_RESPONSE)}, needs=("i", "op", "request"))
LORA = record({**_STEP, "request": LORA_REQUEST, "response": optional(SLOT_RESPONSE)}, needs=("i", "op", "request"))
RESTART = record({**_STEP, "flags": texts, "server": OBJECT, "response": anything}, needs=("i", "op"))


def member(value: Any) -> None:
    """Check a request or slot action of a group."""
    op = _operation(value, ("completion", "chat", "slot"))
    _SHAPES[op](value)
    _pairs(value)


PARALLEL = record({**_STEP, "steps": each(member), "response": NOTHING, "request": NOTHING}, needs=("i", "op", "steps"))
_SHAPES = {"completion": COMPLETION, "chat": COMPLETION, "slot": SLOT, "parallel": PARALLEL, "restart": RESTART,
           "lora": LORA}  # fmt: skip


def step(value: Any) -> None:
    """Check a step by its operation."""
    op = _operation(value, OPERATIONS)
    _SHAPES[op](value)
    if type(value["i"]) is not int:
        raise wanted("a number", value["i"]).within(".i")
    _pairs(value)
    if op == "parallel" and not value["steps"]:
        raise ShapeMismatch("a group without requests")


def _operation(value: Any, known: tuple[str, ...]) -> str:
    if type(value) is not dict:
        raise wanted("an object", value)
    if "op" not in value:
        raise ShapeMismatch("missing key 'op'")
    op = value["op"]
    if type(op) is not str:
        raise wanted("a string", op).within(".op")
    if op not in known:
        raise ShapeMismatch(f"unknown operation {quoted(op)}", nearest(op, known))
    return op


PAIRS = {"drafts": "tokens held and tokens drafted", "decodes": "events before a batch and its tokens"}


def _pairs(value: Mapping[str, Any]) -> None:
    """Check drafts and batches, which are pairs: tokens held and tokens drafted; events before the batch and its
    tokens."""
    for name, what in PAIRS.items():
        for i, pair in enumerate(value.get(name, ())):
            if len(pair) != 2:
                raise wanted(what, pair).within(f".{name}[{i}]")


TRACE = record({
    **dict.fromkeys(("engine", "commit", "model", "name", "workload", "profile", "build"), text),
    "seed": integer(), "note": optional(text), "log": flag, "flags": texts, "base_flags": texts,
    "env": OBJECT, "server": record({"n_slots": count}, others=anything),
    "inexact": each(record({"i": step_number}, needs=("i",), others=optional(one_of(flag, number)))),
    "steps": each(step), "adapters": each(ADAPTER), "projector": OBJECT, "images": record({}, others=IMAGE),
}, needs=("engine", "commit", "model", "name", "flags", "server", "inexact", "steps"))  # fmt: skip


CLASSES = record({
    **dict.fromkeys(("engine", "version", "name"), text), "seed": integer(), "config": OBJECT,
    "requests": record({}, others=OBJECT), "steps": each(record({"op": text, "i": count}, ("op",), anything)),
    "final": OBJECT,
}, needs=("engine", "version", "name", "config", "requests", "steps", "final"))  # fmt: skip


def check_trace(data: Any, file: str, classes: bool) -> None:
    """Raise BadInput, naming the place, unless the data has the form of a recording. ``classes``: of a server's
    classes."""
    check(data, CLASSES if classes else TRACE, file)
