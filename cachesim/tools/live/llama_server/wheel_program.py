"""Program that takes llama-server's flags and runs the server inside the wheel xllamacpp. Standard library only.

The environment of the wheel runs this file as a script, so it imports no other module of the package. It answers HTTP
as the build in the wheel's version, and logs to its standard output and error. SIGTERM and SIGINT end it.
Source: llama.cpp common/arg.cpp, tools/server/server.cpp llama_server (b11549); attributes of CommonParams in the
wheels from 0.2.1 (September 2025) to 2026.10.11549.
"""

from __future__ import annotations

import re
import signal
import sys
from importlib.metadata import version
from typing import Any, Callable, Mapping, NamedTuple, Sequence

WHEEL = "xllamacpp"
ENDING = (signal.SIGTERM, signal.SIGINT)
AUTOMATIC_SLOTS = 4         # slots of a server without -np, which then share one KV cache
DEFAULT_PORT = 8080
BAD_COMMAND = 2             # exit code

Library = Any
"""The module xllamacpp, which has no types."""
Read = Callable[[Library, str], Any]


class WheelFlag(NamedTuple):
    """A flag of llama-server: attributes of CommonParams with dots, and reader of its value. A switch has a value
    instead of a reader. ``attribute``: its names, the newest first; a release has at most one of them. ``idle``: value
    that a release without the attribute behaves like, so that it is accepted there."""

    attribute: str
    read: Read | None = None
    value: Any = None
    idle: Any = None

    @property
    def attributes(self) -> list[str]:
        """Names of the attribute in all releases, the newest first."""
        return self.attribute.split()


def _integer(_: Library, text: str) -> int:
    return int(text)


def _number(_: Library, text: str) -> float:
    return float(text)


def _text(_: Library, text: str) -> str:
    return text


def _on_off(_: Library, text: str) -> bool:
    values = {"on": True, "off": False}
    if text not in values:
        raise ValueError("expected on or off")
    return values[text]


def _flash_attention(library: Library, text: str) -> Any:
    names = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}
    return getattr(library.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{names[text]}")


def _tensor_type(library: Library, text: str) -> Any:
    return getattr(library.ggml_type, f"GGML_TYPE_{text.upper()}")


def _pooling(library: Library, text: str) -> Any:
    return getattr(library.llama_pooling_type, f"LLAMA_POOLING_TYPE_{text.upper()}")


OLDER_DRAFTERS = {"DRAFT_SIMPLE": "DRAFT", "DRAFT_EAGLE3": "EAGLE3"}
"""Names of drafters in the enumeration -> their names before b9294."""


def _drafters(library: Library, text: str) -> list[Any]:
    kinds = library.common_speculative_type
    start = "COMMON_SPECULATIVE_TYPE_"
    names = [word.upper().replace("-", "_") for word in text.split(",")]
    present = [name if hasattr(kinds, start + name) else OLDER_DRAFTERS.get(name, name) for name in names]
    return [getattr(kinds, start + name) for name in present]


def _adapters(library: Library, text: str) -> list[Any]:
    """Read adapters without scales."""
    return [library.CommonAdapterLoraInfo(file, 1.0) for file in text.split(",")]


def _scaled_adapters(library: Library, text: str) -> list[Any]:
    pairs = [part.rsplit(":", 1) for part in text.split(",")]
    return [library.CommonAdapterLoraInfo(file, float(scale)) for file, scale in pairs]


TABLE: Mapping[str, WheelFlag] = {
    "-m --model": WheelFlag("model.path", _text),
    "-md --model-draft --spec-draft-model": WheelFlag(
        "speculative.draft.mparams.path speculative.mparams_dft.path speculative.model.path", _text
    ),
    "--mmproj": WheelFlag("mmproj.path", _text),
    "-mm": WheelFlag("mmproj.path", _text),
    "--lora": WheelFlag("lora_adapters", _adapters),
    "--lora-scaled": WheelFlag("lora_adapters", _scaled_adapters),
    "--lora-init-without-apply": WheelFlag("lora_init_without_apply", value=True),
    "--host": WheelFlag("hostnames hostname", _text),
    "--port": WheelFlag("port", _integer),
    "-a --alias": WheelFlag("model_alias", _text),
    "--slot-save-path": WheelFlag("slot_save_path", _text),
    "-c --ctx-size": WheelFlag("n_ctx", _integer),
    "-b --batch-size": WheelFlag("n_batch", _integer),
    "-ub --ubatch-size": WheelFlag("n_ubatch", _integer),
    "-np --parallel": WheelFlag("n_parallel", _integer),
    "-n --predict --n-predict": WheelFlag("n_predict", _integer),
    "--keep": WheelFlag("n_keep", _integer),
    "-kvu --kv-unified": WheelFlag("kv_unified", value=True),
    "-no-kvu --no-kv-unified": WheelFlag("kv_unified", value=False),
    "--kv-unified-per-slot": WheelFlag("kv_unified_per_slot", _integer, idle=0),
    "--swa-full": WheelFlag("swa_full", value=True),
    "-ctxcp --ctx-checkpoints --swa-checkpoints": WheelFlag("n_ctx_checkpoints n_swa_checkpoints", _integer),
    "-cms --checkpoint-min-step --checkpoint-min-spacing": WheelFlag(
        "checkpoint_min_step checkpoint_every_nt", _integer
    ),
    "-cram --cache-ram": WheelFlag("cache_ram_mib", _integer, idle=0),
    "-sps --slot-prompt-similarity": WheelFlag("slot_prompt_similarity", _number),
    "--cache-idle-slots": WheelFlag("cache_idle_slots clear_idle", value=True),
    "--no-cache-idle-slots": WheelFlag("cache_idle_slots clear_idle", value=False, idle=False),
    "--cache-prompt": WheelFlag("cache_prompt", value=True, idle=True),
    "--no-cache-prompt": WheelFlag("cache_prompt", value=False),
    "--cache-reuse": WheelFlag("n_cache_reuse", _integer),
    "--context-shift": WheelFlag("ctx_shift", value=True),
    "--no-context-shift": WheelFlag("ctx_shift", value=False),
    "-cb --cont-batching": WheelFlag("cont_batching", value=True),
    "--embeddings --embedding": WheelFlag("embedding", value=True),
    "--pooling": WheelFlag("pooling_type", _pooling),
    "--image-min-tokens": WheelFlag("image_min_tokens", _integer),
    "--image-max-tokens": WheelFlag("image_max_tokens", _integer),
    "--spec-type": WheelFlag("speculative.types speculative.type", _drafters),
    "--spec-draft-n-max": WheelFlag("speculative.draft.n_max speculative.n_max", _integer),
    "--spec-draft-n-min": WheelFlag("speculative.draft.n_min speculative.n_min", _integer),
    "--spec-draft-p-min": WheelFlag("speculative.draft.p_min speculative.p_min", _number),
    "--spec-ngram-simple-size-n": WheelFlag(
        "speculative.ngram_simple.size_n speculative.ngram_size_n", _integer
    ),
    "--spec-ngram-simple-size-m": WheelFlag(
        "speculative.ngram_simple.size_m speculative.ngram_size_m", _integer
    ),
    "--spec-ngram-map-k-size-n": WheelFlag("speculative.ngram_map_k.size_n speculative.ngram_size_n", _integer),
    "--spec-ngram-map-k-size-m": WheelFlag("speculative.ngram_map_k.size_m speculative.ngram_size_m", _integer),
    "--spec-ngram-map-k4v-size-n": WheelFlag("speculative.ngram_map_k4v.size_n speculative.ngram_size_n", _integer),
    "--spec-ngram-map-k4v-size-m": WheelFlag("speculative.ngram_map_k4v.size_m speculative.ngram_size_m", _integer),
    "--spec-ngram-mod-n-match": WheelFlag("speculative.ngram_mod.n_match speculative.ngram_size_n", _integer),
    "--spec-ngram-mod-n-min": WheelFlag("speculative.ngram_mod.n_min speculative.n_min", _integer),
    "--spec-ngram-mod-n-max": WheelFlag("speculative.ngram_mod.n_max speculative.n_max", _integer),
    "-t --threads": WheelFlag("cpuparams.n_threads", _integer),
    "-tb --threads-batch": WheelFlag("cpuparams_batch.n_threads", _integer),
    "-fa --flash-attn": WheelFlag("flash_attn_type", _flash_attention),
    "-ctk --cache-type-k": WheelFlag("cache_type_k", _tensor_type),
    "-ctv --cache-type-v": WheelFlag("cache_type_v", _tensor_type),
    "-fit --fit": WheelFlag("fit_params", _on_off, idle=False),
    "-ngl --n-gpu-layers": WheelFlag("n_gpu_layers", _integer),
    "--no-warmup": WheelFlag("warmup", value=False),
    "-lv --verbosity": WheelFlag("verbosity", _integer),
    "--jinja": WheelFlag("use_jinja", value=True),
    "--chat-template": WheelFlag("chat_template", _text),
    "--metrics": WheelFlag("endpoint_metrics", value=True),
    "--slots": WheelFlag("endpoint_slots", value=True),
    "--no-slots": WheelFlag("endpoint_slots", value=False),
    "--seed": WheelFlag("sampling.seed", _integer),
}
FLAGS: Mapping[str, WheelFlag] = {name: flag for names, flag in TABLE.items() for name in names.split()}
"""Flags by spelling."""


class BadCommand(Exception):
    """Raised for a flag that the program does not know or the release lacks, or a wrong value."""


class Setting(NamedTuple):
    """A flag of a command line with its value. ``name``: the spelling that was used."""

    name: str
    flag: WheelFlag
    value: Any


def settings_of(words: Sequence[str], library: Library) -> list[Setting]:
    """Return the flags of a command line with their values, in its order. Raise BadCommand."""
    settings, rest = list[Setting](), list(words)
    while rest:
        name = rest.pop(0)
        flag = FLAGS.get(name)
        if flag is None:
            raise BadCommand(f"unknown flag: {name!r}")
        if flag.read is None:
            settings.append(Setting(name, flag, flag.value))
            continue
        if not rest:
            raise BadCommand(f"expected a value for {name}")
        text = rest.pop(0)
        try:
            settings.append(Setting(name, flag, flag.read(library, text)))
        except (ValueError, KeyError, AttributeError):
            raise BadCommand(f"invalid value for {name}: {text!r}") from None
    return settings


def parameters(words: Sequence[str], library: Library) -> Any:
    """Return the CommonParams for a command line, with llama-server's own defaults. Raise BadCommand."""
    params = library.CommonParams()
    params.port = DEFAULT_PORT
    params.n_parallel = -1
    for setting in settings_of(words, library):
        apply(setting, params)
    if params.embedding:
        params.n_batch = min(params.n_batch, params.n_ubatch)       # a prompt must fit a micro-batch
    if params.n_parallel < 0:
        params.n_parallel = AUTOMATIC_SLOTS
        params.kv_unified = True
    per_slot = getattr(params, "kv_unified_per_slot", 0)
    if per_slot > 0 and params.n_ctx == 0:
        params.n_ctx = params.n_parallel * per_slot
    return params


def apply(setting: Setting, params: Any) -> None:
    """Set the attribute of a flag, under the name that it has in this release. Raise BadCommand if the release lacks
    it, unless it behaves as the value asks."""
    for attribute in setting.flag.attributes:
        *owners, name = attribute.split(".")
        owner = params
        for part in owners:
            owner = getattr(owner, part, None)
        if hasattr(owner, name):
            setattr(owner, name, shaped(setting.value, getattr(owner, name)))
            return
    if setting.flag.idle is None or setting.value != setting.flag.idle:
        raise BadCommand(f"this release has no {setting.name}")


def shaped(value: Any, present: Any) -> Any:
    """Return a value in the shape of the present one: some attributes are lists or sets in some releases and single
    values in others. Raise BadCommand for several values where the release has one."""
    if isinstance(present, set | list):
        return value if isinstance(value, list) else type(present)([value])
    if not isinstance(value, list):
        return value
    if len(value) != 1:
        raise BadCommand("this release takes a single --spec-type")
    return value[0]


def build_of(wheel: str) -> str:
    """Return the number of llama.cpp's build in the version of a wheel; 0 for versions before April 2026, which do not
    contain it."""
    found = re.fullmatch(r"\d{4}\.\d+\.(\d+)(?:\.\d+)?", wheel)
    return found[1] if found else "0"


def serve(words: Sequence[str], library: Library) -> None:
    """Start the server; return after SIGTERM or SIGINT, when it has ended. Raise BadCommand."""
    params = parameters(words, library)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)         # the server's threads inherit it
    server = library.Server(params)
    signal.sigwait(ENDING)
    del server                                               # ends its threads, and writes the rest of the log


def main(words: Sequence[str]) -> int:
    """Run the program; return the exit code."""
    if list(words) == ["--version"]:
        wheel = version(WHEEL)
        sys.stdout.write(f"version: {build_of(wheel)} ({WHEEL} {wheel})\n")
        return 0
    import xllamacpp  # type: ignore[import-not-found]  # only the wheel's own environment has it

    try:
        serve(words, xllamacpp)
    except BadCommand as bad:
        sys.stderr.write(f"error: {bad}\n")
        return BAD_COMMAND
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
