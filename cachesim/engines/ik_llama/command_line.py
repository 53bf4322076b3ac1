"""Which server options does a recorded command line of ik_llama.cpp set?

Source: ik_llama.cpp common/common.cpp (8337e4cd3). Flags that change nothing here are read over.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.shared.command_line import CommandLine, share, whole


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise BadInput(f"{quoted(text)} is neither on nor off")
    return text == "on"


WORDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "-c": ("ctx_size", whole), "-b": ("batch_size", whole), "-ub": ("ubatch_size", whole), "-np": ("parallel", whole),
    "--ctx-checkpoints": ("ctx_checkpoints", whole), "-ctx-ckpt": ("ctx_checkpoints", whole),
    "--ctx-checkpoints-interval": ("ctx_checkpoints_interval", whole),
    "--ctx-checkpoints-tolerance": ("ctx_checkpoints_tolerance", whole),
    "--ctx-checkpoints-eviction": ("ctx_checkpoints_eviction", str),
    "-cram": ("cache_ram", whole), "--cache-ram": ("cache_ram", whole),
    "-crs": ("cache_ram_similarity", share), "--cache-ram-similarity": ("cache_ram_similarity", share),
    "-cram-n-min": ("cache_ram_n_min", whole), "--cache-ram-n-min": ("cache_ram_n_min", whole),
    "-sps": ("slot_prompt_similarity", share), "--slot-prompt-similarity": ("slot_prompt_similarity", share),
    "--reasoning-tokens": ("reasoning_tokens", str), "--context-shift": ("context_shift", _switch),
    "-fa": ("flash_attn", _switch), "--flash-attn": ("flash_attn", _switch),
    "--spec-ckpt-mode": ("spec_ckpt_mode", str), "--recurrent-ckpt-mode": ("spec_ckpt_mode", str),
}  # fmt: skip
"""Flag -> option, and how its value is read."""

CONSTANT = ("-t", "1", "-tb", "1", "--no-warmup")
UNCACHED = ("-np", "1", "--cache-ram", "0", "--ctx-checkpoints", "0")
"""Flags of a real server in scripts, and those of its cold twin."""

SPEC_TYPE = "--spec-type"
ALONE = {"--swa-compress": "swa_compress"}
SILENT = ("--no-warmup",)
SILENT_ONE = ("-t", "-tb", "--verbosity", "--slot-save-path")


def read_flags(words: list[str]) -> CommandLine:
    """The options of a command line; of a flag given twice the last one holds. Raises BadInput for an unknown flag or
    one whose value is missing or wrong."""
    out = CommandLine()
    todo = [str(word) for word in words][::-1]
    while todo:
        word = todo.pop()
        if word in ALONE:
            out.options[ALONE[word]] = True
        elif word in WORDS or word in SILENT_ONE or word == SPEC_TYPE:
            if not todo:
                raise BadInput(f"flag {quoted(word)} has no value")
            _one(out.options, word, todo.pop())
        elif word not in SILENT:
            raise BadInput(f"unknown flag {quoted(word)}", hint=nearest(word, [*WORDS, *ALONE, SPEC_TYPE]))
    return out


def _one(options: dict[str, Any], word: str, text: str) -> None:
    if word in WORDS:
        name, read = WORDS[word]
        options[name] = read(text)
    elif word == SPEC_TYPE:
        options["spec_type"], _, rest = text.partition(":")
        given = dict(pair.partition("=")[::2] for pair in rest.split(",") if pair)
        options["spec_draft_n_max"] = whole(given.get("n_max", "1"))


def write_flags(options: Mapping[str, Any]) -> list[str]:
    """The command line that sets these options; ``read_flags`` reads it back."""
    out: list[str] = []
    for name in dict.fromkeys(name for name, _ in WORDS.values()):
        if name in options:
            word, read = next((word, read) for word, (known, read) in WORDS.items() if known == name)
            out += [word, ("on" if options[name] else "off") if read is _switch else str(options[name])]
    out += [word for word, name in ALONE.items() if options.get(name)]
    if options.get("spec_type", "none") != "none":
        out += [SPEC_TYPE, f"{options['spec_type']}:n_max={options.get('spec_draft_n_max', 1)}"]
    return out
