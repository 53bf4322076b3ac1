"""Which server options does a command line set, and which command line sets them?

Source: llama.cpp common/arg.cpp (3f545be). Flags that change nothing here (threads, data types,
verbosity) are read over.
"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.shared.command_line import CommandLine, share, whole

INTEGERS: Mapping[str, tuple[str, ...]] = {
    "ctx_size": ("-c", "--ctx-size"),
    "batch_size": ("-b", "--batch-size"),
    "ubatch_size": ("-ub", "--ubatch-size"),
    "parallel": ("-np", "--parallel"),
    "cache_ram": ("-cram", "--cache-ram"),
    "ctx_checkpoints": ("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"),
    "checkpoint_min_step": ("-cms", "--checkpoint-min-step", "--checkpoint-min-spacing"),
    "cache_reuse": ("--cache-reuse",),
    "spec_draft_n_max": ("--spec-draft-n-max",),
    "kv_unified_per_slot": ("--kv-unified-per-slot",),
}
SHARES: Mapping[str, tuple[str, ...]] = {"slot_prompt_similarity": ("-sps", "--slot-prompt-similarity")}
ON: Mapping[str, tuple[str, ...]] = {
    "kv_unified": ("-kvu", "--kv-unified"),
    "swa_full": ("--swa-full",),
    "cache_idle_slots": ("--cache-idle-slots",),
    "context_shift": ("--context-shift",),
}
OFF: Mapping[str, tuple[str, ...]] = {
    "kv_unified": ("-no-kvu", "--no-kv-unified"),
    "cache_idle_slots": ("--no-cache-idle-slots",),
    "context_shift": ("--no-context-shift",),
}
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "n_predict": ("-n", "--predict", "--n-predict"),
    "n_keep": ("--keep",),
}
"""Flags that are only the default of a request's field."""

DRAFTS = ("spec_draft_n_max",)
OPEN: Mapping[str, int] = {"parallel": -1, "checkpoint_min_step": -1, "cache_reuse": 0}
"""The value by which an option is left to the server."""

CACHE, NO_CACHE = "--cache-prompt", "--no-cache-prompt"
SLEEP = "--sleep-idle-seconds"
MODEL_DRAFT = ("-md", "--model-draft")
SILENT_ONE = (
    "--spec-ngram-simple-size-n", "--spec-ngram-simple-size-m", "--spec-draft-n-min", "--spec-draft-p-min",
    "-t", "-tb", "-fa", "-ctk", "-ctv", "-fit", "-lv", "--slot-save-path", "-ngl", "--seed",
)
POOLING = ("--embeddings", "--pooling")
SILENT = (POOLING[0], "--no-warmup", "-cb", "--cont-batching", CACHE)


def _words(table: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {word: name for name, words in table.items() for word in words}


EVERY = ("-cpent", "--checkpoint-every-n-tokens")
"""The step of periodic checkpoints, in builds that have them: the same number as the spacing; 0 or less = never."""
NEVER = 2**31 - 1

AUTO = -1
"""The number of slots where the command line names none: four with one cache for all, or one in old builds."""

_INTEGERS, _SHARES, _ON, _OFF, _DEFAULTS = map(_words, (INTEGERS, SHARES, ON, OFF, DEFAULTS))
_KNOWN = (
    *_INTEGERS, *EVERY, *_SHARES, *_ON, *_OFF, *_DEFAULTS, *MODEL_DRAFT, SLEEP, *SILENT_ONE, *SILENT,
    NO_CACHE,
)


def read_flags(words: list[str]) -> CommandLine:
    """The options of a command line. Without ``-np`` the version chooses the number of slots. Raises BadInput for an
    unknown flag or one whose value is missing or wrong."""
    out = CommandLine({"parallel": AUTO})
    todo = [str(word) for word in words][::-1]
    while todo:
        _one(out, todo.pop(), todo)
    return out


def _one(out: CommandLine, word: str, todo: list[str]) -> None:
    if word in _INTEGERS:
        out.options[_INTEGERS[word]] = _whole(word, todo)
    elif word in EVERY:
        every = _whole(word, todo)
        out.options["checkpoint_min_step"] = every if every > 0 else NEVER
    elif word in _SHARES:
        out.options[_SHARES[word]] = share(_value(word, todo))
    elif word in _ON or word in _OFF:
        out.options[_ON.get(word) or _OFF[word]] = word in _ON
    elif word in _DEFAULTS:
        out.request[_DEFAULTS[word]] = _whole(word, todo)
    elif word == SLEEP:
        out.sleeps = _whole(word, todo) >= 0
    elif word == NO_CACHE:
        out.request["cache_prompt"] = False
    elif word == "--spec-type":
        out.options["spec_type"] = _value(word, todo)
    elif word == "--pooling":
        out.options["pooling"] = _value(word, todo)
    elif word in MODEL_DRAFT:
        out.options["model_draft"] = _value(word, todo).rpartition("/")[2].removeprefix("tiny-").removesuffix(".gguf")
    elif word in SILENT_ONE:
        _value(word, todo)
    elif word not in SILENT:
        raise BadInput(f"unknown flag {quoted(word)}", hint=nearest(word, _KNOWN))


def _whole(word: str, todo: list[str]) -> int:
    try:
        return whole(_value(word, todo))
    except BadInput as bad:
        raise BadInput(f"flag {quoted(word)}: {bad.cause}") from None


def _value(word: str, todo: list[str]) -> str:
    if not todo:
        raise BadInput(f"flag {quoted(word)} has no value")
    return todo.pop()


def write_flags(options: Mapping[str, Any]) -> list[str]:
    """The command line that sets these options of a server, ``MODELS/`` before a draft model; ``read_flags`` reads it
    back. An option that is left open (-1) or has no effect without another is left out."""
    out: list[str] = []
    for name, words in {**INTEGERS, **SHARES}.items():
        if name in options and options[name] != OPEN.get(name) and name not in DRAFTS:
            out += [words[0], str(options[name])]
    for table, value in ((ON, True), (OFF, False)):
        for name, words in table.items():
            if options.get(name) is value and (name != "kv_unified" or options.get("parallel", 1) != -1):
                out.append(words[0])
    if options.get("pooling", "mean") != "mean":
        out += [*POOLING, str(options["pooling"])]
    if options.get("cache_prompt") is False:
        out.append(NO_CACHE)
    return out + _drafting(options)


def _drafting(options: Mapping[str, Any]) -> list[str]:
    """The drafter. One token has to be repeated before an n-gram is drafted from, so that it happens in short texts."""
    kind, most = options.get("spec_type", "none"), str(options.get("spec_draft_n_max", 3))
    if kind == "none":
        return []
    if kind == "ngram-simple":
        return ["--spec-type", kind, "--spec-ngram-simple-size-n", "1", "--spec-ngram-simple-size-m", most]
    model = [MODEL_DRAFT[0], f"MODELS/tiny-{options['model_draft']}.gguf"] if options.get("model_draft") else []
    return ["--spec-type", kind, "--spec-draft-n-max", most, *model]
