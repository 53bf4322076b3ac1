"""What each kind of line says that llama-server prints of itself when it starts."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_grammar import Meaning

START_MEANINGS: Mapping[str, Meaning] = {
    "server": Meaning(
        "sizes of the server: slots, tokens a slot may hold (n_ctx_slot, n_ctx_seq), batch, micro-batch, window "
        "(n_swa)",
        flags=("-np", "-c", "-kvu", "-b", "-ub"), rules=("LC-SLOT-CTX",),
    ),
    "memory": Meaning(
        "a part of the memory: rows of attention layers (llama_kv_cache) or recurrent states",
        flags=("-c", "-np"),
    ),
    "start_cache": Meaning("the prompt cache and its limit", flags=("-cram",)),
    "no_limit": Meaning("the prompt cache has no limit", flags=("-cram",)),
    "no_cache": Meaning("there is no prompt cache: a slot that is overwritten is lost", flags=("-cram",)),
    "no_ckpt": Meaning("checkpoints are switched off", flags=("-ctxcp",)),
    "start_ckpt": Meaning("checkpoints, their number and distance", flags=("-ctxcp", "-cms")),
    "start_seq_rm": Meaning(
        "whether this model's memory can drop single positions; if not, only a checkpoint leads back",
        rules=("LC-RS-RM",),
    ),
    "start_idle": Meaning(
        "idle slots are saved only with a unified cache",
        flags=("--cache-idle-slots", "-kvu"), rules=("LC-IDLE-SAVE",),
    ),
    "start_reuse": Meaning(
        "this model's memory cannot shift positions, --cache-reuse has no effect",
        flags=("--cache-reuse",),
    ),
    "version": Meaning("the build of the server"),
    "verbosity": Meaning(
        "how much is logged: 3 is the default, 4 adds checkpoints and the prompt cache",
        flags=("-lv",),
    ),
    "memory_part": Meaning(
        "the size of a part of the memory, on one device: rows of attention layers, of those with a window, or states",
        flags=("-c", "-np", "-ctk", "-ctv"),
    ),
    "capped": Meaning("how many tokens one slot may hold, and by what that is limited", flags=("-c", "-np", "-kvu")),
    "no_drafts": Meaning("this server drafts no tokens"),
}
