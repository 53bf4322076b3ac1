"""Table of llama-server's flags, and conversion from and to command lines.

Source: llama.cpp common/arg.cpp (3f545be); values of older builds from the changes that rules name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.shared.command_line import (
    CommandLine,
    SetOn,
    parse_integer,
    read_line,
    unwritten,
    write_context,
    write_line,
)
from cachesim.engines.shared.flags import flag, flags_of
from cachesim.engines.shared.images import PROJECTORS, read_projector, write_projector

POOLINGS = ("mean", "last", "rank")
NGRAM_TYPES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
"""Drafters that read only the tokens of the slot: where the scenario supplies the drafts, they act alike."""
NOT_SIMULATED = {
    "draft-eagle3": "its draft model reads hidden states of several layers, and its memory is not modelled",
    "draft-dflash": "its draft model reads the target's hidden states, and its memory is not modelled",
    "draft-dspark": "its draft model reads the target's hidden states, and its memory is not modelled",
}
"""Drafters of b11549 that are known but not simulated, with the reason."""
SPEC_TYPES = ("none", *NGRAM_TYPES, "draft-simple", "draft-mtp", *NOT_SIMULATED)
"""All values of --spec-type in b11549. Source: common/common.h common_speculative_type (b11549)."""
ROW_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
NEVER = 2**31 - 1


def _read_model(text: str) -> str:
    """Return the name of a test model from the path of its file."""
    return text.rpartition("/")[2].removeprefix("tiny-").removesuffix(".gguf")


_INVOKED = re.compile(r"(?:^|/)alora\d+-([\d.]+)\.gguf$")


def _read_scaled(text: str) -> str:
    """Return the scales in the value of --lora-scaled, ``FILE:SCALE,FILE:SCALE``, with the invocation tokens that a
    file name of ``_write_scaled`` contains."""
    pairs = [part.rpartition(":") for part in text.split(",")]
    return ",".join(scale + (f"@{found[1]}" if (found := _INVOKED.search(file)) else "") for file, _, scale in pairs)


def _write_scaled(options: Mapping[str, Any]) -> list[str]:
    """Return the flag with a file name for each adapter, which contains the invocation tokens of an aLoRA: a scenario
    knows no files."""
    parts = [part.strip().partition("@") for part in options.get("lora_scaled", "").split(",") if part]
    names = [f"alora{i}-{tokens}" if tokens else f"lora{i}" for i, (_, _, tokens) in enumerate(parts)]
    files = ",".join(f"MODELS/{name}.gguf:{part[0]}" for name, part in zip(names, parts, strict=True))
    return ["--lora-scaled", files] if files else []


def _write_unified(options: Mapping[str, Any]) -> list[str]:
    """Return no flag if the number of slots is left open: the server then chooses the cache, too."""
    if "kv_unified" not in options or options.get("parallel", 1) == -1:
        return []
    return ["-kvu" if options["kv_unified"] else "-no-kvu"]


def drafters_of(text: str) -> tuple[str, ...]:
    """Return the drafters in a value of --spec-type, in the order in which b11549 asks them; () if the list has
    "none". Source: common/speculative.cpp common_speculative_types_from_names, common_speculative_init (b11549)."""
    kinds = text.split(",")
    return () if "none" in kinds else tuple(sorted(set(kinds), key=SPEC_TYPES.index))


def by_model(kind: str) -> bool:
    """True if a model makes the drafts, and not earlier text."""
    return kind.startswith("draft-")


def needing_model(kinds: Sequence[str]) -> str:
    """Return the drafter that needs a model, else the first one; "none" without drafters."""
    return next(filter(by_model, kinds), kinds[0] if kinds else "none")


def _read_drafters(text: str) -> str:
    """Return the drafters in a value of --spec-type as an option. Raise BadInput for a name before any "none" that
    b11549 does not have."""
    for kind in text.split(","):
        if kind == "none":
            return kind
        if kind not in SPEC_TYPES:
            hint = nearest(kind, SPEC_TYPES) or ", ".join(SPEC_TYPES)
            raise BadInput(f"unknown drafter {quoted(kind)}", hint=hint)
    return ",".join(drafters_of(text))


def _write_drafter(options: Mapping[str, Any]) -> list[str]:
    """Return the flags of the drafters. The n-gram size is 1, so that n-gram drafts occur in short texts."""
    kinds, most = drafters_of(options.get("spec_type", "none")), str(options.get("spec_draft_n_max", 3))
    sizes: list[str] = []
    for kind in kinds:
        if kind == "ngram-mod":
            sizes += ["--spec-ngram-mod-n-match", "1", "--spec-ngram-mod-n-min", "1", "--spec-ngram-mod-n-max", most]
        elif kind in NGRAM_TYPES and kind != "ngram-cache":
            sizes += [f"--spec-{kind}-size-n", "1", f"--spec-{kind}-size-m", most]
    if any(by_model(kind) or kind == "ngram-cache" for kind in kinds):
        sizes += ["--spec-draft-n-max", most]
    model = ["-md", f"MODELS/tiny-{options['model_draft']}.gguf"] if kinds and options.get("model_draft") else []
    return ["--spec-type", ",".join(kinds), *sizes, *model] if kinds else []


def _write_pooling(options: Mapping[str, Any]) -> list[str]:
    kind = options.get("pooling", "mean")
    return [] if kind == "mean" else ["--embeddings", "--pooling", kind]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of llama-server by the long names of its flags, with the defaults of b11549."""

    ctx_size: int = flag(
        0, "-c", "--ctx-size", also=("n_ctx",), least=1, open=0, tokens=True,
        help="Context of all slots together [tokens]. Slots share it with a unified cache, otherwise each gets an "
             "equal part; a longer prompt is refused.",
        governs="LC-SLOT-CTX LC-CTX-POOL", affects="LC-PC-UPDATE LC-SHIFT LC-SPEC-UNREAD",
    )
    batch_size: int = flag(
        2048, "-b", "--batch-size", also=("n_batch",), least=1, tokens=True,
        help="Maximum batch size n_batch [tokens]. A prompt is evaluated batch by batch, and checkpoints are "
             "created only between batches.",
        governs="LC-CKPT-BREAK LC-DECODE LC-KV-UNDO LC-SPEC-ROOM", affects="LC-SPEC-MAX",
    )
    ubatch_size: int = flag(
        512, "-ub", "--ubatch-size", also=("n_ubatch",), least=1, tokens=True,
        help="Maximum micro-batch size n_ubatch [tokens], the part that the model evaluates at once. One checkpoint "
             "is placed 4 + n_ubatch tokens before the end of a prompt.",
        governs="LC-CKPT-BREAK LC-KV-UNDO LC-RS-SPLIT", affects="LC-CKPT-CREATE LC-TASK",
    )
    parallel: int = flag(
        -1, "-np", "--parallel", also=("n_parallel",), least=1, open=-1, unwritten=-1,
        help="Number of slots; each keeps one conversation in the context. -1 = four with a unified cache (one "
             "before b6925). From b6925 to b7432 this applies to 1, too, unless -kvu or a draft model is given.",
        governs="LC-SLOTS-OPEN LC-SLOT-CTX LC-CTX-POOL", affects="LC-SLOT-SELECT LC-SPEC-UNREAD LC-SPEC-ROOM",
    )
    kv_unified: bool = flag(
        False, "-kvu", "--kv-unified", off=("-no-kvu", "--no-kv-unified"), write=_write_unified,
        help="All slots share the cells of one cache, so that a single slot may fill the whole context. Default: on "
             "only if the number of slots is left open.",
        governs="LC-SLOT-CTX LC-IDLE-PURGE LC-DECODE LC-SPEC-UNREAD LC-KV-COPY LC-RS-SPLIT", affects="LC-IDLE-SAVE",
    )
    swa_full: bool = flag(
        False, "--swa-full", tries=(True,),
        help="Sliding-window layers keep all positions, not only those in the window, so that a prompt can be cut "
             "anywhere without a checkpoint.",
        governs="LC-CKPT-NEED LC-N-SWA LC-KV-FULL LC-KV-STATE LC-KV-UNDO", affects="LC-CKPT-RESET",
    )
    ctx_checkpoints: int = flag(
        32, "-ctxcp", "--ctx-checkpoints", "--swa-checkpoints", also=("n_ctx_checkpoints",),
        help="Maximum number of checkpoints per slot; 0 = none: recurrent, hybrid and sliding-window models then "
             "re-evaluate a changed prompt from its start. (3 before b6723, 8 before b8218.)",
        governs="LC-CKPT-ON LC-CKPT-PICK LC-CKPT-RESET LC-CKPT-LIMIT LC-CKPT-REPLACE",
    )
    checkpoint_min_step: int = flag(
        -1, "-cms", "--checkpoint-min-step", "--checkpoint-min-spacing", least=0, open=-1, unwritten=-1, tokens=True,
        help="Minimum distance between two checkpoints [tokens]; 0 = any distance, -1 = the version's default "
             "(8192; 256 from b9310 to b9764). In b8218 to b9309 the step of periodic checkpoints.",
        governs="LC-CKPT-RESET LC-CKPT-PERIODIC LC-CKPT-CREATE LC-CKPT-SPACING", tries=(0, 64, 256, 1024),
    )
    cache_ram: int = flag(
        8192, "-cram", "--cache-ram", also=("cache_ram_mib",), open=-1,
        help="Size limit of the prompt cache [MiB]; 0 = no prompt cache, -1 = no size limit (a token limit remains).",
        governs="LC-PC-ASK LC-PC-ALLOC LC-PC-LOAD LC-PC-UPDATE", affects="LC-IDLE-SAVE",
    )
    slot_prompt_similarity: float = flag(
        0.1, "-sps", "--slot-prompt-similarity", also=("similarity",), tries=(0.0, 0.1, 0.5),
        help="A slot is selected by LCP similarity if the common prefix is a larger share of the prompt than this; "
             "0 = always by LRU. (0.5 before b6455.)",
        governs="LC-SLOT-SELECT",
    )
    cache_idle_slots: bool = flag(
        True, "--cache-idle-slots", off=("--no-cache-idle-slots",), tries=(True,), governs="LC-IDLE-SAVE",
        help="Idle slots are saved to the prompt cache when a request of another conversation starts.",
    )
    cache_prompt: bool = flag(
        True, "--cache-prompt", off=("--no-cache-prompt",), unwritten=True, request=True, tries=(True,),
        governs="LC-NPAST-LCP",
        help="Default of the request field cache_prompt: reuse the contents of the slot; off = every prompt is "
             "evaluated from its start.",
    )
    cache_reuse: int = flag(
        0, "--cache-reuse", also=("n_cache_reuse",), unwritten=0, tokens=True, tries=(256, 1),
        help="Minimum length [tokens] of a block after the common prefix that is reused by shifting its positions; "
             "0 = blocks are not reused.",
        governs="LC-NPAST-REUSE",
    )
    context_shift: bool = flag(
        False, "--context-shift", off=("--no-context-shift",), tries=(True, False), governs="LC-SHIFT",
        help="A full context discards its older half and generation continues; off = generation ends.",
    )
    spec_type: str = flag(
        "none", "--spec-type", choices=SPEC_TYPES, listed=True, read=_read_drafters, write=_write_drafter,
        governs="LC-RS-PLANES LC-SPEC-ON",
        help="Drafting methods, from b9109 on several with commas; the scenario supplies the drafts. A rejected draft "
             "is removed or, where the memory cannot be cut, undone by restoring a checkpoint. draft-eagle3, "
             "draft-dflash and draft-dspark are not simulated.",
    )
    spec_draft_n_max: int = flag(
        3, "--spec-draft-n-max", write=unwritten, help="Maximum length of a draft [tokens]. (16 before b9235.)",
        governs="LC-RS-PLANES LC-RS-BACK LC-SPEC-MAX LC-SPEC-CKPT LC-SPEC-ROOM",
    )
    model_draft: str = flag(
        "", "-md", "--model-draft", "--spec-draft-model", fact=True, model=True, read=_read_model, write=unwritten,
        governs="LC-SPEC-ON", help="Draft model for spec_type draft-simple: layers or a name.",
    )
    kv_unified_per_slot: int = flag(
        0, "--kv-unified-per-slot", open=0, tokens=True, governs="LC-SLOT-CTX LC-CTX-POOL",
        help="Maximum context of a slot in a unified cache [tokens]; 0 = no limit. From b10809 on.",
    )
    lora_scaled: str = flag(
        "", "--lora-scaled", fact=True, read=_read_scaled, write=_write_scaled,
        governs="LC-LORA-LIST LC-LORA-CLEAR LC-LORA-BATCH LC-ALORA-SCAN LC-ALORA-ONE LC-ALORA-CAP LC-ALORA-SPLIT",
        help="Adapters in the order of their ids: scales separated by commas, with the invocation tokens of an aLoRA: "
             "1,0.5,0@101.102.",
    )
    lora_init_without_apply: bool = flag(
        False, "--lora-init-without-apply", fact=True, governs="LC-LORA-INIT",
        help="The library's context starts without adapters. Their scales stay, so that a request without a list "
             "uses them.",
    )
    mmproj: str = flag(
        "", "--mmproj", "-mm", fact=True, choices=PROJECTORS, read=read_projector, write=write_projector,
        governs="LC-MEDIA-OFF LC-MEDIA-NONCAUSAL LC-MEDIA-FILE", affects="LC-SHIFT LC-NPAST-REUSE",
        help="Projector of images; gemma3 = one whose images are evaluated without causal mask. Contexts are not "
             "shifted then, and moved blocks are not reused.",
    )
    cache_type_k: str = flag(
        "f16", "-ctk", "--cache-type-k", choices=ROW_TYPES, unwritten="f16", governs="LC-KV-QUANT",
        help="Type of K rows. Sizes are as declared for types that are not quantized.",
    )
    cache_type_v: str = flag(
        "f16", "-ctv", "--cache-type-v", choices=ROW_TYPES, unwritten="f16",
        help="Type of V rows; quantized rows take fewer bytes in states and in the prompt cache.",
    )
    n_ctx_train: int = flag(
        0, fact=True, least=1, open=0, tokens=True, write=write_context,
        help="Context that the model was trained on [tokens]: that of a server without --ctx-size from b7407 on, and "
             "the most that a slot has. 0 = not known: 131072, as in the recorded models, without --ctx-size.",
    )
    pooling: str = flag(
        "mean", "--pooling", fact=True, choices=POOLINGS, write=_write_pooling, governs="LC-TASK",
        help="Pooling of an embedding; last and rank read only the last token of the prompt.",
    )


FLAGS = flags_of(Options)

READ_OVER: Mapping[str, int] = {
    **dict.fromkeys((f"--spec-{kind}-{size}" for kind in ("ngram-simple", "ngram-map-k", "ngram-map-k4v")
                     for size in ("size-n", "size-m")), 1),
    "--spec-ngram-mod-n-match": 1, "--spec-ngram-mod-n-min": 1, "--spec-ngram-mod-n-max": 1, "--spec-draft-n-min": 1,
    "--spec-draft-p-min": 1, "-t": 1, "-tb": 1, "-fa": 1, "-fit": 1, "-lv": 1,
    "--slot-save-path": 1, "-ngl": 1, "--embeddings": 0, "--no-warmup": 0, "-cb": 0, "--cont-batching": 0,
    "--image-min-tokens": 1, "--image-max-tokens": 1,
}  # fmt: skip
"""Flags of recordings that change no cache decision, and their number of values."""

IGNORED: Mapping[str, int] = {
    **READ_OVER,
    "-m": 1, "-hf": 1, "--host": 1, "--port": 1, "--jinja": 0, "-v": 0, "--verbose": 0, "--metrics": 0, "--slots": 0,
    "--n-gpu-layers": 1, "--threads": 1, "--flash-attn": 1, "--alias": 1,
    "--temp": 1, "--top-k": 1, "--top-p": 1, "--min-p": 1, "--chat-template": 1, "--chat-template-file": 1,
    "--reasoning-format": 1, "--reasoning-budget": 1, "--no-mmap": 0, "--mlock": 0, "-ngld": 1,
    "--split-mode": 1, "--tensor-split": 1, "-ts": 1, "-sm": 1, "--api-key": 1, "--n-cpu-moe": 1, "-ot": 1,
}  # fmt: skip
"""Further flags that a command line may have, and their number of values."""


def period_of(text: str) -> int:
    """Return the step of periodic checkpoints [tokens] that a flag sets; <= 0 = never."""
    every = parse_integer(text)
    return every if every > 0 else NEVER


def _read_step(line: CommandLine, text: str) -> None:
    """Set the step of periodic checkpoints in builds that have them, stored as the minimum distance."""
    line.options["checkpoint_min_step"] = period_of(text)


def _read_sleep(line: CommandLine, text: str) -> None:
    line.sleeps = parse_integer(text) >= 0


def _read_adapter(line: CommandLine, text: str) -> None:
    """Add an adapter with scale 1."""
    line.options["lora_scaled"] = ",".join(filter(None, (line.options.get("lora_scaled"), "1")))


def _read_field(name: str, line: CommandLine, text: str) -> None:
    """Set the default of a request field."""
    line.request[name] = parse_integer(text)


OTHERS: Mapping[str, SetOn] = {
    "-cpent": _read_step, "--checkpoint-every-n-tokens": _read_step, "--sleep-idle-seconds": _read_sleep,
    "--lora": _read_adapter, **dict.fromkeys(("-n", "--predict", "--n-predict"), partial(_read_field, "n_predict")),
    "--keep": partial(_read_field, "n_keep"),
}  # fmt: skip
"""Command-line flags that are not server options here."""


def read_flags(words: Sequence[str]) -> CommandLine:
    """Parse the words of a command line. Without ``-np`` the version chooses the number of slots. Raise BadInput for
    an unknown flag, or a missing or wrong value."""
    return read_line(
        words, FLAGS, line=CommandLine({"parallel": -1}), ignored={**READ_OVER, "--seed": 1}, others=OTHERS
    )


def recorded_options(header: Mapping[str, Any]) -> dict[str, str]:
    """Return what the header of a recording adds to its flags: quantized rows, which are among its constant flags, and
    adapters, since the flags do not name the tokens that invoke an aLoRA."""
    return {**_recorded_types(header), **_recorded_adapters(header)}


def _recorded_types(header: Mapping[str, Any]) -> dict[str, str]:
    words = header.get("base_flags", [])
    given = dict(pairwise(words))
    names = {"cache_type_k": "-ctk", "cache_type_v": "-ctv"}
    return {name: given[word] for name, word in names.items() if given.get(word) in ROW_TYPES[3:]}


def _recorded_adapters(header: Mapping[str, Any]) -> dict[str, str]:
    found = [(repr(one["scale"]), ".".join(map(str, one.get("alora_invocation_tokens", ()))))
             for one in header.get("adapters", ())]  # fmt: skip
    written = ",".join(f"{scale}@{tokens}" if tokens else scale for scale, tokens in found)
    return {"lora_scaled": written} if found else {}


def write_flags(options: Mapping[str, Any]) -> list[str]:
    """Return the command line that sets these options, with ``MODELS/`` before a draft model. ``read_flags`` parses it.
    Options that are left open, or have no effect without another option, are omitted."""
    return write_line(options, FLAGS)
