"""What can be asked of mlx-lm's server: its options, its models, what a search draws."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Iterator, Mapping

from cachesim.engines.chat import TEMPLATES
from cachesim.engines.manual import MANY, Chats, Load, Manual, Option, World, flags_of
from cachesim.engines.mlx_lm.server_flags import Options
from cachesim.engines.shared.advice import halves, more, others
from cachesim.engines.shared.known_models import MODELS
from cachesim.model.hash_mixing import Rng

# What do the flags of mlx-lm's server mean for its caches, one sentence each, and how does it spell them?
#
# Source: mlx-lm mlx_lm/server.py main (d78bf58e).

HELP: Mapping[str, str] = {
    "prompt_cache_size": "Most entries of the prompt cache.",
    "prompt_cache_bytes": "Limit of the prompt cache in bytes, looked at when a request joins a batch; 0 = no limit.",
    "decode_concurrency": "Most requests that generate in one batch.",
    "prompt_concurrency": "Most prompts that are evaluated in one batch.",
    "prefill_step_size": "Most tokens of a prompt that are evaluated at once.",
    "num_draft_tokens": "Tokens of a draft, where there is a draft model.",
    "draft_model": "Model that drafts: layers or a name. Requests are not batched then.",
    "template": "Stands for the model's chat template: plain keeps every message, terse leaves out all but roles, "
                "words and ends, reasoning renders thoughts behind the last user message only.",
    "thinking": "The chat template begins an answer with a thought.",
    "ticks_per_slice": "No flag of the server: generator steps between two looks at new and cancelled requests (half a "
                       "second there).",
    "snapshot_interval": "No flag of the server: tokens between two snapshots of a prompt, a constant of #923.",
}  # fmt: skip
"""Option -> what it changes."""

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    name: (f"--{name.replace('_', '-')}",)
    for name in (
        "prompt_cache_size", "prompt_cache_bytes", "decode_concurrency", "prompt_concurrency", "prefill_step_size",
        "num_draft_tokens", "draft_model",
    )
}

IGNORED: Mapping[str, int] = {
    "--host": 1, "--port": 1, "--log-level": 1, "--temp": 1, "--top-p": 1, "--top-k": 1, "--min-p": 1,
    "--max-tokens": 1, "--chat-template": 1, "--use-default-chat-template": 0, "--trust-remote-code": 0,
    "--adapter-path": 1, "--allowed-origins": 1,
}  # fmt: skip
"""Flags that change no decision about caches, and how many values follow them."""

__all__ = ["HELP", "IGNORED", "SPELLINGS"]


# Which options of mlx-lm's server govern which families of rules? For ``cachesim explain``.

RULE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "ML-LRU-COUNT": ("prompt_cache_size",),
    "ML-LRU-BYTES": ("prompt_cache_bytes",),
    "ML-LRU-VICTIM": ("prompt_cache_size", "prompt_cache_bytes"),
    "ML-LRU-SNAP": ("snapshot_interval",),
    "ML-BATCH": ("prompt_concurrency", "decode_concurrency"),
    "ML-BATCHABLE": ("draft_model",),
    "ML-PC-BATCH": ("prompt_concurrency",),
    "ML-SPEC-START": ("draft_model", "num_draft_tokens", "prefill_step_size"),
    "ML-SPEC-ROUND": ("draft_model", "num_draft_tokens"),
    "ML-SEG-TAIL": ("thinking",),
    "ML-PC-POSITION": ("thinking",),
}
"""Family -> names of options."""


# Which flags of mlx-lm's server are worth trying where too much of a prompt is evaluated?

def tries(now: Mapping[str, Any], load: Load) -> Iterator[dict[str, Option]]:
    """Options to try, one at a time; ``now`` are all options of the server."""
    yield from others("draft_model", now, "")
    yield from others("prompt_concurrency", now, 1)
    yield from others("decode_concurrency", now, 1)
    yield from halves("prefill_step_size", now, load)
    yield from more("prompt_cache_size", now, 10, 20, 50, 100)
    yield from others("prompt_cache_bytes", now, 0)


def draw(rng: Rng, model: str) -> World:
    """A server for this model: short steps, few entries, small batches."""
    step = rng.one((2048, 2048, 64, 8, 7, 4, 3, 2, 2, 1))
    server: dict[str, Any] = {"prefill_step_size": step, "template": rng.one(("plain", "reasoning", "terse", "terse"))}
    server["thinking"] = rng.chance(40)
    if rng.chance(40):
        server["prompt_cache_size"] = rng.one((1, 2, 4))
    if rng.chance(20):
        server["prompt_cache_bytes"] = rng.one((20_000, 200_000))
    if rng.chance(30):
        server["prompt_concurrency"], server["decode_concurrency"] = rng.one((1, 2)), rng.one((1, 2, 4))
    if rng.chance(40 if set(model) == {"A"} else 4):     # others are refused since #1109
        server["draft_model"], server["num_draft_tokens"] = "A", rng.one((1, 2, 3))
    if rng.chance(20):
        server["snapshot_interval"] = rng.one((8, 32))
    return World("mlx_lm", model, server, (1, 2, 3, 8, 11, step), min(400, MANY * step))


def draw_fields(rng: Rng, server: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request besides prompt and answer: a seed, which has it served alone, and how many drafts are
    right."""
    fields: dict[str, Any] = {}
    if rng.chance(6):
        fields["seed"] = True
    if "draft_model" in server:
        fields["draft_else"] = rng.below(int(server["num_draft_tokens"]) + 1)
    return fields


def draw_system(rng: Rng, server: Mapping[str, Any]) -> int:
    """Tokens of a system text. With its headers it often is one token longer than so many steps: then the last of them
    is a tick of one token."""
    step = int(server["prefill_step_size"])
    if step <= 8 and rng.chance(50):
        header = 3 if server["template"] == "terse" else 8
        return 1 + step * (header // step + rng.between(1, 5)) - header
    return rng.between(1, rng.one((4, 12, 40)))


WITHOUT_WINDOW = MODELS["gemma-2"]._replace(
    layers="AAAA", real="all its layers are attention here: this server does not model its window",
    source="ml-explore/mlx-lm mlx_lm/models/gemma2.py",
)

MANUAL = Manual(
    flags=flags_of(
        asdict(Options()),
        least={name: 1 for name in (
            "decode_concurrency", "prompt_concurrency", "prefill_step_size", "ticks_per_slice", "snapshot_interval",
            "num_draft_tokens",
        )},
        choices={"template": tuple(TEMPLATES)},
        model={"draft_model": True},
        help=HELP,
        tokens={"prefill_step_size": True, "snapshot_interval": True},
        spellings=SPELLINGS,
    ),
    silent=IGNORED,
    known={**MODELS, "gemma-2": WITHOUT_WINDOW},
    models=("llama", "gemma3", "mamba2", "lfm2", "qwen3_next", "falcon_h1"),
    with_text=("llama", "gemma3l6", "qwen35d64", "qwen35d64mtp"),
    slots=False,
    chats=Chats(draw_system, lambda server: server["template"] != "plain"),
    takes=frozenset({"messages", "seed", "cancel_at", "drafts", "draft_else"}),
    headline=("prompt_cache_size", "prefill_step_size"),
    unlimited={"prompt_cache_size": 1_000_000},
    plenty={"prompt_cache_size": 10},
    drawn=("A", "AA", "W8 A", "W8 W8", "GA", "GGGA", "S", "CA", "H", "W8 G"),
    draw=draw,
    draw_fields=draw_fields,
    tries=tries,
)
