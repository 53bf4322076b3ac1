"""Flags of ik_llama.cpp's server, a row each, and its command lines.

Source: ik_llama.cpp common/common.cpp (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from cachesim.base import limits
from cachesim.engines.capabilities import Option
from cachesim.engines.shared.command_line import (
    CommandLine,
    parse_integer,
    parse_on_off,
    read_line,
    write_context,
    write_line,
)
from cachesim.engines.shared.flags import flag, flags_of
from cachesim.engines.shared.images import PROJECTORS, read_projector, write_projector


def _read_drafter(text: str) -> Mapping[str, Option]:
    """Parse ``mtp:n_max=4``: the kind of drafter and its parameters."""
    kind, _, rest = text.partition(":")
    given = dict(pair.partition("=")[::2] for pair in rest.split(",") if pair)
    return {"spec_type": kind, "spec_draft_n_max": parse_integer(given.get("n_max", "1"))}


def _write_drafter(options: Mapping[str, Any]) -> list[str]:
    kind = options.get("spec_type", "none")
    return [] if kind == "none" else ["--spec-type", f"{kind}:n_max={options.get('spec_draft_n_max', 1)}"]


@dataclass(frozen=True, slots=True)
class Options:
    """Start options of the server by the long names of their flags, with the defaults of 8337e4cd3."""

    ctx_size: int = flag(
        0, "-c", "--ctx-size", also=("n_ctx",), least=1, open=0, tokens=True,
        affects="IK-FULL IK-SHIFT IK-PROMPT-SHIFT",
        help="Size of the whole context [tokens], divided equally among the slots.")
    batch_size: int = flag(
        2048, "-b", "--batch-size", also=("n_batch",), least=1, tokens=True, affects="IK-CKPT-BREAK",
        help="Largest batch [tokens] (n_batch). A prompt is evaluated batch by batch.")
    ubatch_size: int = flag(
        512, "-ub", "--ubatch-size", also=("n_ubatch",), least=1, tokens=True,
        help="Largest micro-batch [tokens], which the model evaluates at once (n_ubatch).")
    parallel: int = flag(
        1, "-np", "--parallel", also=("n_parallel",), least=1, limit=limits.SLOTS, affects="IK-SLOT-SELECT IK-WINDOW",
        help="Number of slots; each keeps one conversation in the context.")
    ctx_checkpoints: int = flag(
        32, "--ctx-checkpoints", "-ctx-ckpt", governs="IK-CKPT-ON IK-CKPT-EVICT",
        help="Most checkpoints per slot; 0 = none: recurrent and hybrid models evaluate a changed prompt from "
             "its start. (8 before #1398.)")
    ctx_checkpoints_interval: int = flag(
        512, "--ctx-checkpoints-interval", "-ctx-ckpt-i", tokens=True, governs="IK-CKPT-INTERVAL",
        tries=(512, 256, 64, 16),
        help="Distance between checkpoints created during evaluation [tokens]; 0 = none.")
    ctx_checkpoints_tolerance: int = flag(
        5, "--ctx-checkpoints-tolerance", "-ctx-ckpt-t", tokens=True, governs="IK-CKPT-BREAK IK-CKPT-FIRST",
        tries=(5, 0),
        help="Distance of the last checkpoint from the end of the prompt [tokens]; 0 = at the end. Since #1346.")
    ctx_checkpoints_eviction: str = flag(
        "variance", "--ctx-checkpoints-eviction", "-ctx-ckpt-e", choices=("variance", "fifo", "auto"),
        governs="IK-CKPT-EVICT", tries=("variance", "fifo"),
        help="Eviction policy of a full checkpoint list: variance keeps them evenly spread, fifo evicts the "
             "oldest. Since #2020.")
    cache_ram: int = flag(
        8192, "-cram", "--cache-ram", open=-1, governs="IK-PC-SAVE IK-PC-ALLOC IK-PC-LOAD IK-PC-UPDATE",
        help="Limit of the prompt cache in MiB; 0 = no prompt cache, -1 = no limit.")
    cache_ram_similarity: float = flag(
        0.5, "-crs", "--cache-ram-similarity", governs="IK-PC-SAVE IK-PC-LOAD", tries=(1.0, 0.5, 0.25, 0.0),
        help="Similarity threshold of the prompt cache: a slot is saved if the next prompt keeps a smaller share; "
             "since #2105 an entry is loaded only if the prompt keeps at least this share.")
    cache_ram_n_min: int = flag(
        0, "-cram-n-min", "--cache-ram-n-min", tokens=True, governs="IK-PC-SAVE", tries=(0,),
        help="Shortest slot that is saved to the prompt cache [tokens].")
    slot_prompt_similarity: float = flag(
        0.1, "-sps", "--slot-prompt-similarity", governs="IK-SLOT-SELECT", tries=(0.0, 0.1, 0.5),
        help="Similarity threshold of slot selection (share of the common prefix); 0 = always by LRU.")
    reasoning_tokens: str = flag(
        "auto", "--reasoning-tokens", choices=("auto", "none"), governs="IK-PREFIX IK-PC-PEEK", tries=("none",),
        help="Reasoning when a prompt is compared with a slot or an entry: auto ignores the text between <think> and "
             "</think>, none compares it like other text.")
    context_shift: bool = flag(
        True, "--context-shift", off=("--no-context-shift",), read=parse_on_off,
        governs="IK-FULL IK-SHIFT IK-PROMPT-SHIFT",
        tries=(True, False),
        help="Behaviour of a full context: on drops its older half and continues, off ends generation.")
    flash_attn: bool = flag(
        True, "-fa", "--flash-attn", read=parse_on_off,
        help="Flash attention; without it the context consists of blocks of 32 cells instead of 256.")
    swa_compress: bool = flag(
        False, "--swa-compress", governs="IK-WINDOW", tries=(False,),
        help="Sliding-window caches keep only the window, so some removals are refused. Since #2253.")
    mmproj: str = flag(
        "", "--mmproj", fact=True, choices=PROJECTORS, read=read_projector, write=write_projector,
        governs="IK-MEDIA-OFF IK-MEDIA-NONCAUSAL", affects="IK-PREFIX",
        help="Projector of images; gemma3 = one whose images are evaluated without causal mask. Only drafts of an MTP "
             "head are used then. Read in the source, never run.")
    spec_type: str = flag(
        "none", "--spec-type", choices=("none", "ngram-simple", "mtp"), read=_read_drafter, write=_write_drafter,
        help="Drafting method; a rejected draft is removed, or undone by restoring a checkpoint.")
    spec_draft_n_max: int = flag(
        16, governs="IK-SPEC-MAX", affects="IK-SPEC-SAVE",
        help="Longest draft [tokens]. Written as part of --spec-type: mtp:n_max=4.")
    spec_ckpt_mode: str = flag(
        "auto", "--spec-ckpt-mode", "--recurrent-ckpt-mode", choices=("auto", "per-step", "gpu-fallback", "cpu"),
        governs="IK-SPEC-SAVE",
        help="Method to save a recurrent state before a draft is verified; auto uses the first that works.")
    companion_recurrent: bool = flag(
        False, fact=True,
        help="Not a server flag: the memory of the draft context (MTP) refuses removals, as #1889 assumes.")
    drafts_from_rows: bool = flag(
        False, fact=True,
        help="Not a server flag: drafts (MTP) are wrong if the draft context makes them for another position or "
             "reads rows of later states.")
    n_ctx_train: int = flag(
        0, fact=True, least=1, open=0, tokens=True, write=write_context,
        help="Context that the model was trained on [tokens]: that of a server without --ctx-size. 0 = not known: "
             "131072, as in the recorded models.")


FLAGS = flags_of(Options)

CONSTANT = ("-t", "1", "-tb", "1", "--no-warmup")
UNCACHED = ("-np", "1", "--cache-ram", "0", "--ctx-checkpoints", "0")
"""Flags of a real server in scripts, and flags of its cold twin."""

NO_EFFECT_FLAGS: Mapping[str, int] = {"-t": 1, "-tb": 1, "--verbosity": 1, "--slot-save-path": 1, "--no-warmup": 0}
"""Flags of recordings without effect on caches -> number of values that follow."""

IGNORED: Mapping[str, int] = {
    **NO_EFFECT_FLAGS,
    "-m": 1, "--host": 1, "--port": 1, "--jinja": 0, "-ngl": 1, "-fmoe": 0, "-rtr": 0, "-ctk": 1, "-ctv": 1, "-mla": 1,
    "-amb": 1, "-ot": 1, "--alias": 1, "--no-mmap": 0, "-v": 0, "--n-gpu-layers": 1, "--threads": 1, "-ger": 0,
}  # fmt: skip
"""Ignored flags of command lines -> number of values that follow."""


def read_flags(words: Sequence[str]) -> CommandLine:
    """Parse a command line. Raise BadInput for an unknown flag, and for a missing or wrong value."""
    return read_line(words, FLAGS, CommandLine(), NO_EFFECT_FLAGS)


def write_flags(options: Mapping[str, Any]) -> list[str]:
    """Return the command line that sets these options; ``read_flags`` reads it back."""
    return write_line(options, FLAGS)
