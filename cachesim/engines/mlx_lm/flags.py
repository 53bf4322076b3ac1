"""Table of the flags of mlx-lm's server.

Source: mlx-lm mlx_lm/server.py main (d78bf58e).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from cachesim.engines.chat_template import TEMPLATES
from cachesim.engines.shared.flags import flag, flags_of


@dataclass(frozen=True, slots=True)
class Options:
    """Start-up options, by the long names of their flags. ``template`` and ``thinking`` stand for the model's chat
    template."""

    prompt_cache_size: int = flag(10, "--prompt-cache-size", least=0, governs="ML-LRU-COUNT ML-LRU-VICTIM",
        help="Maximum number of prompt-cache entries.")
    prompt_cache_bytes: int = flag(0, "--prompt-cache-bytes", least=0, governs="ML-LRU-BYTES ML-LRU-VICTIM", tries=(0,),
        help="Prompt-cache limit [bytes], enforced when a request joins a batch; 0 = unlimited.")
    decode_concurrency: int = flag(32, "--decode-concurrency", least=1, affects="ML-BATCH", tries=(1,),
        help="Maximum number of requests that generate in one batch.")
    prompt_concurrency: int = flag(8, "--prompt-concurrency", least=1, governs="ML-BATCH ML-PC-BATCH", tries=(1,),
        help="Maximum number of prompts that are evaluated in one batch.")
    prefill_step_size: int = flag(2048, "--prefill-step-size", least=1, tokens=True, affects="ML-SPEC-START",
        help="Maximum prompt chunk per evaluation step [tokens].")
    num_draft_tokens: int = flag(3, "--num-draft-tokens", least=1, affects="ML-SPEC-START ML-SPEC-ROUND",
        help="Draft length, with a draft model [tokens].")
    draft_model: str = flag(
        "", "--draft-model", model=True, governs="ML-BATCHABLE ML-SPEC-START ML-SPEC-ROUND", tries=("",),
        help="Draft model: layers or a name. Disables batching.")
    template: str = flag("plain", fact=True, choices=tuple(TEMPLATES),
        help="Substitute for the model's chat template: plain keeps every message, terse renders only roles, words and "
             "ends, kept also an empty thought in each answer, reasoning renders thoughts only after the last user "
             "message.")
    thinking: bool = flag(False, fact=True, governs="ML-SEG-TAIL ML-PC-POSITION",
        help="Chat template that begins each answer with a thought.")
    ticks_per_slice: int = flag(1, fact=True, least=1,
        help="Simulator setting, not a server flag: generator steps between two checks for new and cancelled requests "
             "(the server checks every half second).")
    max_kv_size: int = flag(0, fact=True, least=0, open=0, tokens=True, governs="ML-NEW-CACHE",
        help="Simulator setting, not a server flag: the batch generator's limit of tokens for each layer, as a program "
             "without the server sets it. The layers of the model have this window; 0 = no limit.")
    snapshot_interval: int = flag(8192, fact=True, least=1, tokens=True, governs="ML-LRU-SNAP",
        help="Simulator setting, not a server flag: distance between two snapshots of a prompt [tokens], a constant of "
             "#923.")


FLAGS = flags_of(Options)

IGNORED: Mapping[str, int] = {
    "--host": 1, "--port": 1, "--log-level": 1, "--temp": 1, "--top-p": 1, "--top-k": 1, "--min-p": 1,
    "--max-tokens": 1, "--chat-template": 1, "--use-default-chat-template": 0, "--trust-remote-code": 0,
    "--adapter-path": 1, "--allowed-origins": 1,
}  # fmt: skip
"""Flags without influence on cache decisions, and the number of values that follow each."""
