"""What is a scenario? Its dataclasses, the server options it may set, and the limits it must respect."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Mapping, NamedTuple

from cachesim.engines.base import Request
from cachesim.engines.registry import ENGINES as ENGINES_BY_NAME

Option = int | float | bool | str
Allowed = tuple[int, ...]
"""The values that an expectation accepts: one, or several where the engine leaves freedom (``either``)."""

DEFAULT_PROFILE = ENGINES_BY_NAME["llama_cpp"].newest
"""The rule set of a command that names none."""

ENGINES = ("llama_cpp", "ik_llama", "mlx_lm")
MODELS = (
    "llama", "gemma3", "gemma3l6", "mamba2", "qwen35", "qwen35mtp", "lfm2", "lfm2swa", "falconh1", "granitehybrid",
)  # fmt: skip
MODELS_OF: Mapping[str, tuple[str, ...]] = {
    "llama_cpp": MODELS,
    "ik_llama": ("llama", "gemma3l6", "qwen35d64", "qwen35d64mtp", "deepseek4"),
    "mlx_lm": ("llama", "gemma3", "mamba2", "lfm2", "qwen3_next", "falcon_h1"),
}
"""Names of models by engine: those that it was recorded or described with."""
ARCHITECTURES = ("qwen35",)
"""May precede the layers in llama.cpp: ``qwen35-GGGA``."""

WITH_TEXT = ("llama", "gemma3l6", "qwen35d64", "qwen35d64mtp")
"""Models whose tokens have a text that an engine looks at."""

# The server's own flags with dashes as underscores, and what a scenario gets where it sets nothing. The
# type of the default is the type that is demanded.
OPTIONS: Mapping[str, Option] = {
    "ctx_size": 1024,
    "batch_size": 64,
    "ubatch_size": 16,
    "parallel": 1,
    "kv_unified": False,
    "swa_full": False,
    "ctx_checkpoints": 32,
    "checkpoint_min_step": -1,
    "cache_ram": 8192,
    "slot_prompt_similarity": 0.1,
    "cache_idle_slots": True,
    "cache_reuse": 0,
    "context_shift": False,
    "spec_type": "none",
    "spec_draft_n_max": 3,
    "model_draft": "",
    "kv_unified_per_slot": 0,
    "pooling": "mean",
}

IK_OPTIONS: Mapping[str, Option] = {
    "ctx_size": 1024,
    "batch_size": 64,
    "ubatch_size": 16,
    "parallel": 1,
    "ctx_checkpoints": 32,
    "ctx_checkpoints_interval": 512,
    "ctx_checkpoints_tolerance": 5,
    "ctx_checkpoints_eviction": "variance",
    "cache_ram": 8192,
    "cache_ram_similarity": 0.5,
    "cache_ram_n_min": 0,
    "slot_prompt_similarity": 0.1,
    "reasoning_tokens": "auto",
    "context_shift": False,
    "swa_compress": False,
    "spec_type": "none",
    "spec_draft_n_max": 3,
    "spec_ckpt_mode": "auto",
    "companion_recurrent": False,
}
"""Those of ik_llama.cpp's server. ``companion_recurrent`` is none of them: it injects a companion that refuses."""

MLX_OPTIONS: Mapping[str, Option] = {
    "prompt_cache_size": 10,
    "prompt_cache_bytes": 0,
    "decode_concurrency": 32,
    "prompt_concurrency": 8,
    "prefill_step_size": 2048,
    "num_draft_tokens": 3,
    "draft_model": "",
    "template": "plain",
    "thinking": False,
    "ticks_per_slice": 1,
    "snapshot_interval": 8192,
}
"""Those of mlx-lm's server, what stands for its model's template, and two constants; see the engine's options."""

OPTIONS_OF: Mapping[str, Mapping[str, Option]] = {
    "llama_cpp": OPTIONS, "ik_llama": IK_OPTIONS, "mlx_lm": MLX_OPTIONS,
}

SPEC_TYPES = ("none", "ngram-simple", "draft-simple", "draft-mtp")
IK_SPEC_TYPES = ("none", "ngram-simple", "mtp")
SPEC_TYPES_OF: Mapping[str, tuple[str, ...]] = {"llama_cpp": SPEC_TYPES, "ik_llama": IK_SPEC_TYPES}
EMPTY_PROMPT = ("ik_llama",)               # engines whose server answers a prompt without tokens
ROLES = ("system", "user", "assistant", "tool")
TASKS = ("completion", "infill", "embedding", "rerank")
POOLINGS = ("mean", "last", "rank")
ACTIONS = ("save", "restore", "erase", "restart")

LOWEST: Mapping[str, int] = {"ctx_size": 1, "batch_size": 1, "ubatch_size": 1, "parallel": 1, "decode_concurrency": 1,
                                 "prompt_concurrency": 1, "prefill_step_size": 1, "ticks_per_slice": 1,
                                 "snapshot_interval": 1, "num_draft_tokens": 1}
"""Smallest value of an option; 0 where nothing is said."""

OPEN: Mapping[str, int] = {
    "ctx_size": 0, "parallel": -1, "cache_ram": -1, "checkpoint_min_step": -1, "kv_unified_per_slot": 0,
}
"""The value by which an option is left open: a context that follows from other flags; four slots, unified; no byte
limit; the default of the version; no cap."""


@dataclass(frozen=True, slots=True)
class Action:
    """A step that is no completion: ``do`` one of ACTIONS, on slot ``id_slot`` (-1 = the whole server), with the file
    named ``file`` in the run's own folder. ``server`` are options that change with a restart."""

    do: str
    id_slot: int = -1
    file: str = ""
    server: tuple[tuple[str, Option], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One request, or the ``action`` in its place (the request is empty then).

    ``text`` is the request in the one-line notation, without the lengths of words; what the notation has no sign for
    stands behind it in braces. ``drafts`` are pairs (drafted, accepted) in the order of the iterations. ``together``:
    sent while the step before is at work, ``after`` iterations of the server's loop later.
    """

    request: Request
    text: str
    why: str = ""
    action: Action | None = None
    drafts: tuple[tuple[int, int], ...] = ()
    together: bool = False
    after: int = 0

    @property
    def prompt(self) -> str:
        """The words of the prompt alone, or the action, for a table."""
        return self.text if self.action else re.split("[>!@{]", self.text, maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Expect:
    """What one profile is expected to do, an entry per step. None = nothing is expected.

    ``broken`` lists the steps (from 0) whose answer differs from a cold run, ``died`` those that the server's process
    did not survive or that found it dead; ``slots`` are slot ids, ``status`` HTTP codes, ``entries`` how many
    conversations are stored; ``undecided`` the steps whose outcome depends on a number that the server never wrote
    (their numbers leave freedom). ``completed`` marks numbers that were written by a run and that no human has read
    yet.
    """

    cache_n: tuple[Allowed, ...] | None = None
    prompt_n: tuple[Allowed, ...] | None = None
    broken: tuple[int, ...] = ()
    checkpoints: tuple[tuple[int, ...], ...] | None = None
    slots: tuple[Allowed, ...] | None = None
    status: tuple[Allowed, ...] | None = None
    entries: tuple[Allowed, ...] | None = None
    died: tuple[int, ...] | None = None
    undecided: tuple[int, ...] = ()
    why: str = ""
    completed: bool = False


class Lives(NamedTuple):
    """A fault shows in the outcome of a request under the versions of the line from ``first`` ("" = as soon as the
    version has what the scenario uses) to ``last``."""

    request: int
    first: str
    last: str


@dataclass(frozen=True, slots=True, repr=False)
class Scenario:
    """A whole scenario; ``repr()`` is its requests in the one-line notation."""

    id: str
    title: str
    source: tuple[str, ...]
    why: str
    engine: str
    model: str
    profiles: tuple[str, ...]
    server: Mapping[str, Option]
    words: Mapping[str, int]
    steps: tuple[Step, ...]
    expect: Mapping[str, Expect] = field(default_factory=dict)
    file: str = ""
    lives: tuple[Lives, ...] = ()
    old_names: Mapping[str, str] = field(default_factory=dict)       # of profiles, as the file has them -> present ones

    def __repr__(self) -> str:
        from cachesim.scenarios.notation import to_line  # schema is below notation

        return to_line(self)
