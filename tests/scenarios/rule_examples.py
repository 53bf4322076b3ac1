"""Decisions of rules that no scenario reaches, or whose decisions leave no line in the log: for their sentences."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from cachesim.base.media_items import image_items
from cachesim.engines.ik_llama.rules.context_shift import PromptShift, Shift
from cachesim.engines.ik_llama.rules.micro_batch import ComputeGraph
from cachesim.engines.llama_cpp.rules.checkpoint_facts import CheckpointUse, Chunk, Ckpt, PromptInputs, ResumePlace
from cachesim.engines.rule import RULES, Decision
from cachesim.engines.shared.prompt_cache_limits import Limits
from cachesim.engines.vllm.rules.schedule import ChunkSplit, WaitingQueue

CHUNK = Chunk(8, 16, 8, 8, 4, (8,), 4, True, 8)
CKPT = Ckpt(8, 0, 7, 1, 64)
GRAPH = ComputeGraph(32, 8, 1, (1,), (False,), False)

IMAGE = (1, *image_items("a", 8, 4), 2)
"""A token, an image of 8 tokens at 4 positions, and a token."""

ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "IK-CKPT-CELLS.CLAIMED": (True,),
    "IK-CKPT-CELLS.KEPT": (True,),
    "IK-PC-FAILED.CLEARS": (9,),
    "IK-PC-FAILED.KEEPS": (9,),
    "IK-PROMPT-CUT.BLOCK": (9,),
    "IK-PROMPT-CUT.NONE": (9,),
    "IK-REFUSED.LEAVES": (90, 64),
    "IK-REFUSED.READS": (90, 64),
    "IK-SHIFT-LIST.ALL": (False,),
    "IK-SHIFT-LIST.CACHED": (False,),
    "IK-SPEC-ROW.FIRST": (1,),
    "IK-SPEC-ROW.OWN": (1,),
    "IK-SPEC-STEPS.PLACE": (3, 4),
    "IK-SPEC-STEPS.POSITION": (3, 4),
    "IK-STATE-ZERO": (0, 2),
    "LC-TRIM.ASSERT": (9,),
    **dict.fromkeys(("LC-ALORA-START", "LC-ALORA-START.RESET", "LC-ALORA-START.LAUNCH"), (4,)),
    "LC-LORA-LEAD.STAYS": (),
    **dict.fromkeys(("LC-ALORA-READ", "LC-ALORA-READ.NONE"), ((101,),)),
    **dict.fromkeys(("LC-LORA-IDS", "LC-LORA-IDS.REFUSED"), ((7,), 1)),
    "LC-ALORA-ROWS": (30, 20),
    "LC-TASK-VALID": (-1,),
    "IK-UBATCH-SPLIT": (True, [0, 1, 1]),
    "IK-KV-WINDOW.ALL": (1024, 8, 32, True, 64),
    "IK-KV-SEEN.EXACT": (np.zeros(40, np.int64), 128, 32),
    **dict.fromkeys(("IK-SPEC-START.ONE-SLOT", "IK-SPEC-START.ANY"), ("mtp", 2)),
    "IK-CKPT-FIRST.ALWAYS": (0,),
    "IK-CKPT-FIRST.NO-TOLERANCE": (0,),
    "IK-SEQ-RM": (True, 9, 5, 12),
    "IK-SPEC-COMMIT.AHEAD": (9,),
    "IK-SPEC-COMMIT.LEVEL": (9,),
    "IK-SPEC-PURGE.KEEP": (9, True, 2),
    "IK-SPEC-PURGE.KNOWN": (9, True, 2),
    "IK-ABORT.NEVER": (64, 15),
    "IK-DRAFT-FROM.TARGET": (9, 8),
    "IK-WARM-UP.BEFORE": (16, 8),
    "IK-WARM-UP.SAME": (16, 8),
    "IK-GRAPH.NEW": (None, GRAPH, 1),
    "IK-GRAPH.SEQUENCES": (GRAPH, GRAPH, 1),
    "IK-GRAPH.ONE-TOKEN": (GRAPH, GRAPH, 1),
    "IK-WINDOW.COMPACT": (True, True, 1),
    "IK-WINDOW.COMPACT-ANY": (True, False, 1),
    "IK-WINDOW.WHOLE": (True, True, 1),
    **dict.fromkeys(("LC-BATCH-CHECK.NEXT", "LC-KV-MASK.OWN", "LC-KV-POS.COUNTED", "LC-KV-TURN.OWN",
                     "LC-RS-TAIL.CLEARED"), ()),
    **dict.fromkeys(("LC-FAIL.CLEAR", "LC-FAIL.KEEP"), (1,)),
    "LC-LIST.ALWAYS": (True, 0),
    "LC-SLOTS-OPEN.AUTO": (-1, False, False),
    "LC-SLOTS-OPEN.ONE": (1, False, False),
    "LC-PROMPT-FIT.REFUSE": (300, 256, 0, False),
    **dict.fromkeys(("LC-SHIFT-WHEN.GENERATING", "LC-SHIFT-WHEN.BUSY"), (False,)),
    **dict.fromkeys(("LC-SLOT-LIKE.PREFIX", "LC-SLOT-LIKE.SUBSTRING"), ((1, 2, 3), (1, 2, 4))),
    "LC-TRIM-AT.EVALUATED": (9, 9),
    "LC-CKPT-AFTER.NEVER": (True,),
    "LC-CKPT-COUNT.BATCH": (8, 16, 8),
    "LC-CKPT-COUNT.OWN": (8, 16, 8),
    "LC-CKPT-NOTE.NONE": (CKPT, CheckpointUse("made", 1)),
    "LC-SPEC-BATCH.SHARED": (),
    "LC-SPEC-FULL.OWN": (3, 1),
    "LC-CKPT-PERIODIC.NONE": (CHUNK, 16, [CKPT]),
    **dict.fromkeys(("LC-CHILDREN.LAST", "LC-CHILDREN.SELECTED"), (2,)),
    "LC-CKPT-RESTORE.RE3": (CKPT, PromptInputs(9, 9, 12, 12, 11, 0, True)),
    "LC-CKPT-TOLD.GONE": (3, [0]),
    "LC-CKPT-TOLD.NEWEST": (3, [0]),
    "LC-CKPT-TOLD.NEXT": (3, [0]),
    "LC-CKPT-UNREAD.ABORT": (1,),
    **dict.fromkeys(("LC-SPEC-UNREAD.SIZE", "LC-SPEC-UNREAD.ASSERT"), (False,)),
    "LC-CKPT-UNREAD.FILE": (1,),
    "LC-CKPT-UNREAD.RESET": (1,),
    "LC-IDLE-PURGE.NONE": (False,),
    "LC-KV-STATE.RING": (np.arange(3), 9, 4),
    "LC-KV-STATE.WINDOW": (np.arange(3), 9, 4),
    **dict.fromkeys(("LC-RS-PLANE.DEPTH", "LC-RS-PLANE.COUNTED"), (2, 0, 1, 3)),
    **dict.fromkeys(("LC-RS-SAVED.PENDING", "LC-RS-SAVED.ABORT"), (2,)),
    **dict.fromkeys(("LC-SPEC-COUNT.ONCE", "LC-SPEC-COUNT.ALL"), (3, True)),
    **dict.fromkeys(("LC-SPEC-PLACE.OWN", "LC-SPEC-PLACE.FIRST"), (1,)),
    **dict.fromkeys(("LC-PC-FAILED.CLEAR", "LC-PC-FAILED.KEEP"), (9,)),
    "LC-PC-ASK.PC4": (0,),
    "LC-PC-UPDATE.PC0": ([64, 64], [9, 9], Limits(100, 0)),
    "LC-RS-BACK.ONCE": (2, 3, 0, 1),
    "LC-RS-RM.RM1": (9, 9, 12, False),
    "LC-SHARED.PREFIX": ([[1, 2, 3], [1, 2, 4]],),
    "LC-SHARED.UNKNOWN": ([[1, 2, 3], [1, 2, 4]],),
    "LC-SPEC-SPLIT.NONE": (0, 3, 0, 2),
    "LC-TASK-REUSE.ALL": ("embedding",),
    "ML-BATCH-FRESH.EMPTY": ([True, False], [0, 9]),
    "ML-BATCH-FRESH.SIZE": ([True, False], [0, 9]),
    "ML-BATCHABLE-LAYERS.any": (["KVCache"], True),
    "ML-EXTRACT": (["KVCache"],),
    "ML-PC-LENGTHS.ALL": (9, 1),
    "ML-PC-LENGTHS.TAIL": (9, 1),
    "ML-THINKS.TOKENIZER": (True, False),
    "LC-MEDIA-POS": (IMAGE, 9), "LC-MEDIA-RESUME": (IMAGE, Ckpt(9, 0, 8, 0, 1), ResumePlace(9, 9), True),
    "LC-MEDIA-LCP": (IMAGE, 4), "LC-MEDIA-NULL": (IMAGE, (1, -1), 1), "LC-MEDIA-CUT": (IMAGE, 4),
    "LC-MEDIA-ITER": (IMAGE, 0, 10), "LC-MEDIA-CKPT": (True, 1), "LC-MEDIA-NONCAUSAL": (9, 8, True),
    "LC-MEDIA-KV": (1,), "LC-MEDIA-LORA": ((1.0,), (0.0,)), "LC-MEDIA-OFF": (True, True),
    "LC-MEDIA-FILE": (True, False), "LC-MEDIA-LORA.OWN": ((1.0,), (0.0,)),
    **dict.fromkeys(("LC-TASK-FIRST", "LC-TASK-FIRST.VALID"), (-1,)),
    **dict.fromkeys(("LC-MEDIA-LAST", "LC-MEDIA-LAST.REFUSED"), (IMAGE[:-1],)),
    **dict.fromkeys(("LC-MEDIA-SIZE", "LC-MEDIA-SIZE.REFUSED"), (9, 64, 8)),
    **dict.fromkeys(("LC-MEDIA-BACK", "LC-MEDIA-BACK.START"), (IMAGE[:-1], 9)),
    **dict.fromkeys(("LC-MEDIA-AGAIN", "LC-MEDIA-AGAIN.PURGED"), (1,)),
    **dict.fromkeys(("LC-MEDIA-REASON", "LC-MEDIA-REASON.IMAGE"), (True, 0)),
    "LC-MEDIA-CKPT.AFTER": (True, 1),
    "IK-MEDIA-POS": (IMAGE, 9, True), "IK-MEDIA-RESUME": (IMAGE, 9, True), "IK-MEDIA-CUT.INSIDE": (IMAGE, 4),
    "IK-MEDIA-CUT.BEHIND": (IMAGE, 9), "IK-MEDIA-ITER": (IMAGE, 0, 10, True), "IK-MEDIA-PLACE": (9, 8),
    "IK-MEDIA-CKPT": (True, True, 9), "IK-MEDIA-END": (0,), "IK-MEDIA-NULL": (-1, 0),
    "IK-MEDIA-NONCAUSAL": (9, 8, True), "IK-MEDIA-KV": (1,), "IK-MEDIA-SHIFT": (IMAGE, Shift(5, 5, 2)),
    "IK-MEDIA-PROMPT-SHIFT": (IMAGE, PromptShift(5, 2, 6), 6), "IK-MEDIA-OFF": ("ngram-simple", True),
}
"""Arguments of rules that return a decision, by id."""

PLAIN: Mapping[str, Decision] = {
    "ML-ARRAYS-ADVANCE.step": Decision(True, {}),
    "ML-ARRAYS-KEEP.copied": Decision(False, {"gated": True}),
    "ML-ARRAYS-TRIM.refused": Decision(False, {}),
    "ML-KV-MERGE.skips_empty": Decision(True, {"full": [True, False]}),
    "ML-LRU-QUERY.whole": Decision(9, {"query": 9}),
    "ML-LRU-SNAPCOPY.copied": Decision(4, {"key": 9, "length": 5, "held": 12}),
    "ML-LRU-TRIM-IN.copy": Decision(False, {}),
    "ML-LRU-UNTRIMMABLE.refused": Decision(0, {"common": 9}),
    "ML-RING-EXTRACT-END.cut": Decision(9, {"end": 9, "columns": 16, "left_padding": 0}),
    **{name: Decision(None, {}) for name in (
        "ML-STATE-ARRAYS.padded", "ML-STATE-ARRAYS.slots", "ML-STATE-META.none", "ML-STATE-META.text",
        "ML-STATE-RESTORE.cut", "ML-STATE-RESTORE.whole", "ML-STATE-SAVE.cut", "ML-STATE-SAVE.whole",
    )},
    "ML-STATE-ROTATED.truth": Decision(True, {"text": "False"}),
}
"""Decisions of rules of mlx-lm's classes that its server never asks, as its tables would tell them."""


SPLIT = ChunkSplit(
    start=0,
    end=40,
    prefill_end=50,
    num_prompt_tokens=50,
    block_size=16,
    max_prefill_tokens=40,
    last_cache_position=48,
    tail_boundary=0,
    use_internal_checkpoint=False,
    junction=0,
    mamba_shared_prefix_checkpoint=False,
)
POOL_DECISIONS: Mapping[str, tuple[Any, ...]] = {
    "VL-POOL-EVICT": (3, 32), "VL-STATE-WAIT": ("mamba", False, True), "VL-STATE-WAIT.COPY": ("mamba", False, True),
    **dict.fromkeys(("VL-SPLIT-CHUNK", "VL-SPLIT-CHUNK.ALONE", "VL-SPLIT-CHUNK.BLOCK"), (SPLIT,)),
    "VL-OFF-WAIT": (True,), "VL-OFF-LOAD": (8, 4), "VL-OFF-STORE": (3, 1, 1),
    "VL-SCHED-NEXT": ("fcfs", WaitingQueue(order=[(0, 1)], holds_blocks=[False], is_skipped=[False])),
    "VL-SCHED-ADMIT": (0, 3, 0, 2), "VL-SCHED-PREEMPT": ("fcfs", [(0, 1)], 3, 2),
}
"""Arguments of rules of a block pool that return a decision, by id."""


def answers_plainly(engine: str) -> set[str]:
    """Return the rules of an engine that answer with a plain value, which the log does not hold."""
    return {name for name, fn in RULES.items()
            if fn.__module__.startswith(f"cachesim.engines.{engine}.") and not hasattr(fn, "__wrapped__")}


def examples() -> dict[str, Decision]:
    """Return an example decision of each rule."""
    found = Decision(32, {"n": 40, "junction": 0})
    padding = Decision(True, {"n": 9, "needed": 3, "free": 2, "most": 2})
    lookahead = Decision(0, {"computed": 3, "n": 5, "new": 1, "remaining": 1, "lookahead": 2})
    return {**{name: RULES[name](*args) for name, args in (ARGUMENTS | dict(POOL_DECISIONS)).items()}, **PLAIN,
            **dict.fromkeys(answers_plainly("vllm") | answers_plainly("sglang"), Decision(1, {})),
            **dict.fromkeys(("VL-LOOKUP-RECONCILE", "VL-LOOKUP-RECONCILE.ONE", "VL-LOOKUP-RECONCILE.STATES",
                             "VL-LOOKUP-ONE-GROUP"), found),
            **dict.fromkeys(("VL-SCHED-PAD", "VL-SCHED-PAD.FITS"), padding),
            **dict.fromkeys(("VL-SCHED-LOOK", "VL-SCHED-LOOK.SOME"), lookahead),
            "SG-SCHED-CHUNK.NEXT": Decision(0, {"left": 9, "total": 4, "window": 1})}
