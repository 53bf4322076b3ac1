"""The flags of mlx-lm's server, one row each.

Source: mlx-lm mlx_lm/server.py main (d78bf58e).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from cachesim.engines.chat_template import TEMPLATES
from cachesim.engines.shared.flags import flag, flags_of


@dataclass(frozen=True, slots=True)
class Options:
    """What the server is started with, by the long names of its flags. ``template`` and ``thinking`` stand for the
    model's chat template."""

    prompt_cache_size: int = flag(10, "--prompt-cache-size", least=0, governs="ML-LRU-COUNT ML-LRU-VICTIM",
        help="Most entries of the prompt cache.")
    prompt_cache_bytes: int = flag(0, "--prompt-cache-bytes", least=0, governs="ML-LRU-BYTES ML-LRU-VICTIM", tries=(0,),
        help="Limit of the prompt cache in bytes, looked at when a request joins a batch; 0 = no limit.")
    decode_concurrency: int = flag(32, "--decode-concurrency", least=1, affects="ML-BATCH", tries=(1,),
        help="Most requests that generate in one batch.")
    prompt_concurrency: int = flag(8, "--prompt-concurrency", least=1, governs="ML-BATCH ML-PC-BATCH", tries=(1,),
        help="Most prompts that are evaluated in one batch.")
    prefill_step_size: int = flag(2048, "--prefill-step-size", least=1, tokens=True, affects="ML-SPEC-START",
        help="Most tokens of a prompt that are evaluated at once.")
    num_draft_tokens: int = flag(3, "--num-draft-tokens", least=1, affects="ML-SPEC-START ML-SPEC-ROUND",
        help="Tokens of a draft, where there is a draft model.")
    draft_model: str = flag(
        "", "--draft-model", model=True, governs="ML-BATCHABLE ML-SPEC-START ML-SPEC-ROUND", tries=("",),
        help="Model that drafts: layers or a name. Requests are not batched then.")
    template: str = flag("plain", choices=tuple(TEMPLATES),
        help="Stands for the model's chat template: plain keeps every message, terse leaves out all but roles, words "
             "and ends, reasoning renders thoughts behind the last user message only.")
    thinking: bool = flag(False, governs="ML-SEG-TAIL ML-PC-POSITION",
        help="The chat template begins an answer with a thought.")
    ticks_per_slice: int = flag(1, least=1,
        help="No flag of the server: generator steps between two looks at new and cancelled requests (half a second "
             "there).")
    snapshot_interval: int = flag(8192, least=1, tokens=True, governs="ML-LRU-SNAP",
        help="No flag of the server: tokens between two snapshots of a prompt, a constant of #923.")


FLAGS = flags_of(Options)

IGNORED: Mapping[str, int] = {
    "--host": 1, "--port": 1, "--log-level": 1, "--temp": 1, "--top-p": 1, "--top-k": 1, "--min-p": 1,
    "--max-tokens": 1, "--chat-template": 1, "--use-default-chat-template": 0, "--trust-remote-code": 0,
    "--adapter-path": 1, "--allowed-origins": 1,
}  # fmt: skip
"""Flags that change no decision about caches, and how many values follow them."""
