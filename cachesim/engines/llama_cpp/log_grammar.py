"""llama-server's log for whoever reads a log that was pasted: its lines, what they say, and options that follow."""

from __future__ import annotations

from collections import Counter
from typing import Mapping, Sequence

from cachesim.engines.llama_cpp.log_lines import LINES
from cachesim.engines.llama_cpp.log_meanings import MEANINGS
from cachesim.engines.shared.log_grammar import LogGrammar, Number

SAID = {
    "n_batch": "batch_size", "n_ubatch": "ubatch_size", "n_slots": "parallel", "kv_unified": "kv_unified",
    "max": "ctx_checkpoints", "step": "checkpoint_min_step", "limit_mib": "cache_ram",
    "similarity": "slot_prompt_similarity",
}  # fmt: skip
"""Option by the name of the number that says it."""


def options(facts: Mapping[str, Number | str]) -> dict[str, Number | str]:
    """The options of a server that says these numbers of itself. A context that is not unified is shared by the slots;
    one that is not said is as large as the longest prompt needs (``needed``)."""
    found = {SAID[name]: value for name, value in facts.items() if name in SAID}
    each, slots = facts.get("n_ctx_slot"), facts.get("n_slots", 1)
    if isinstance(facts.get("n_ctx"), int):
        found["ctx_size"] = facts["n_ctx"]
    elif isinstance(each, int) and isinstance(slots, int):
        found["ctx_size"] = each if facts.get("kv_unified") else each * slots
    elif isinstance(needed := facts.get("needed"), int) and isinstance(slots, int):
        found["ctx_size"] = max(4096, 2 << (needed * slots).bit_length())
    whole = {name: int(value) if isinstance(value, float) else value for name, value in found.items()}
    return {**whole, **{name: value for name, value in found.items() if name == "slot_prompt_similarity"}}


END = 4                      # tokens between a prompt's last checkpoint and its end
MOST = 3                     # values that are tried


def hints(prompts: Sequence[tuple[int, int | None]]) -> dict[str, Sequence[Number]]:
    """Micro-batches that would explain where prompts go on: a checkpoint is created END tokens before the end of a
    prompt, and one a micro-batch before that."""
    found: Counter[int] = Counter()
    for number, (_, reused) in enumerate(prompts):
        if reused:
            found.update({length - END - reused for length, _ in prompts[:number]})
    common = [size for size, _ in found.most_common() if 8 <= size <= 8192 and size % 8 == 0]
    return {"ubatch_size": tuple(common[:MOST])}


GRAMMAR = LogGrammar(
    LINES, MEANINGS,
    signs=("get_availabl", "operator()", "update_slots", "print_timing", "launch_slot_:", "create_check:", "f_sim_best",
           "prompt_clear", "print_timings:"),
    options=options, hints=hints, open={
        "ubatch_size": (512, 1024, 2048, 256, 128, 64, 32, 16), "ctx_checkpoints": (32, 0, 8, 4, 3, 2, 1),
        "checkpoint_min_step": (256, 64, 0), "swa_full": (True,), "cache_ram": (0, 1), "cache_reuse": (256, 16, 4, 1),
        "cache_idle_slots": (False,), "slot_prompt_similarity": (0.0,),
    },
)  # fmt: skip
