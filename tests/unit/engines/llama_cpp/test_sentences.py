"""Sentences of decisions, one for each branch: those of decisions with an effect, and those of decisions without."""

from __future__ import annotations

from types import SimpleNamespace as Plan

import pytest

from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit
from cachesim.engines.llama_cpp.rules.checkpoint_facts import ResumePlace
from cachesim.engines.llama_cpp.rules.checkpoint_restore import CheckpointNeed
from cachesim.engines.llama_cpp.rules.context_shift import MovedBlock, Shift
from cachesim.engines.llama_cpp.rules.prompt_cache import Admission
from cachesim.engines.llama_cpp.rules.slot_selection import IdlePlan, SlotChoice
from cachesim.engines.llama_cpp.sentences import ALL, SENTENCES
from cachesim.engines.shared.prompt_cache_limits import Eviction
from cachesim.engines.shared.sentences import NoEffect

ONE, TWO = MovedBlock(1, 3, 2), MovedBlock(4, 8, 5)
ROLLBACK = {"back": 2, "n_rs_seq": 3, "pending": 0}
PLANE = {"back": 1, "pending": 2, "since": 1}
DRAFT = {"n_draft": 1, "n_rs_seq": 0}
EMBED = {"kind": "embedding", "n_tokens": 9, "n_ubatch": 8}
END = {"n_gen": 3, "n_predict": 9}

PROMPT = [
    ("LC-NPAST-REUSE", None, {"least": 3}, "cache reuse is not supported by this memory (recurrent state)"),
    ("LC-NPAST-REUSE", (), {"least": 3}, "~no block of 3 tokens or more to reuse"),
    ("LC-NPAST-REUSE", (ONE,), {"least": 1}, "reuses 1 token in 1 block at shifted positions (--cache-reuse)"),
    ("LC-NPAST-REUSE", (ONE, TWO), {"least": 1}, "reuses 5 tokens in 2 blocks at shifted positions (--cache-reuse)"),
    ("LC-TASK", True, {"kind": "completion"}, "~completion: uses prompt cache and checkpoints"),
    ("LC-TASK", False, {"kind": "infill"}, "infill: no prompt cache, no checkpoints"),
    ("LC-TASK", "", EMBED, "~embedding: may be split into micro-batches"),
    ("LC-TASK", "whole", EMBED, "embedding: evaluated in one micro-batch (9 tokens, n_ubatch 8)"),
    ("LC-TASK", "too large", EMBED, "embedding: 9 tokens are too large to process (n_ubatch 8)"),
    ("LC-DECODE", 0, {"purged": False}, "no free KV cells: Context size has been exceeded"),
    ("LC-DECODE", 8, {"purged": False}, "no free KV cells: retries with n_batch = 8"),
    ("LC-DECODE", 8, {"purged": True}, "no free KV cells: retries with n_batch = 8 after purging an idle slot"),
    ("LC-END", ("", False), END, "token 3 of 9: continues"),
    ("LC-END", ("word", False), END, "token 3 of 9: stops (word)"),
    ("LC-END", ("limit", True), END, "token 3 of 9: stops (context full)"),
    ("LC-SHARED", None, {"prompts": 2}, "~several prompts in one request are not supported"),
    ("LC-SHARED", 0, {"prompts": 2}, "~2 prompts share no token"),
    ("LC-SHARED", 1, {"prompts": 2}, "1 token shared by 2 prompts, evaluated once"),
    ("LC-MARKS", True, {}, "~user messages are known from the chat template or message_delimiters"),
    ("LC-MARKS", False, {}, "message_delimiters of a plain completion are ignored"),
    ("LC-SHIFT", None, {"held": 7, "n_ctx": 64}, "~no context shift: 7 of 64 tokens"),
    ("LC-SHIFT", Shift(4, 59, 29), {"held": 63}, "context shift at 63 tokens: n_keep = 4, n_discard = 29"),
]

MEMORY = [
    ("LC-RS-RM", True, {"p0": 3, "p1": ALL, "pos": 9},
     "seq_rm(3, -1) refused: the recurrent state is at position 9 and cannot go back"),
    ("LC-RS-RM", False, {"p0": 3, "p1": ALL - 1, "pos": 9},
     "seq_rm(3, 2147483646) accepted: the recurrent state is at position 9"),
    ("LC-RS-RM.RM1", False, {"p0": 9, "p1": ALL, "pos": 9},
     "seq_rm(9, -1) accepted: it drops the whole recurrent state at position 9"),
    ("LC-RS-RM.RM1", False, {"p0": 1, "p1": ALL, "pos": 1},
     "seq_rm(1, -1) accepted: it drops the whole recurrent state at position 1"),
    ("LC-RS-RM.RM1", False, {"p0": 0, "p1": ALL, "pos": 0},
     "seq_rm(0, -1) accepted: the recurrent state is at position 0"),
    ("LC-RS-RM.RM1", False, {"p0": 10, "p1": ALL, "pos": 9},
     "seq_rm(10, -1) accepted: the recurrent state is at position 9"),
    ("LC-RS-RM.RM1", True, {"p0": 9, "p1": 9, "pos": 9},
     "seq_rm(9, 9) refused: the recurrent state is at position 9 and cannot go back"),
    ("LC-RS-BACK", True, ROLLBACK, "recurrent state rolled back by 2 tokens (n_rs_seq 3)"),
    ("LC-RS-BACK", False, {**ROLLBACK, "back": 4}, "no rollback by 4 tokens: n_rs_seq 3"),
    ("LC-RS-BACK", False, {**ROLLBACK, "back": 0}, "no rollback by 0 tokens: n_rs_seq 3"),
    ("LC-RS-BACK", False, {**ROLLBACK, "back": 1, "pending": 1}, "no rollback by 1 token: a rollback is pending"),
    ("LC-RS-BACK", False, {**ROLLBACK, "back": 3}, "no rollback by 3 tokens: the cell is shared"),
    ("LC-RS-PLANE", 3, PLANE, "rollback by 1 token reads plane 3 (2 pending, 1 token after the planes)"),
    ("LC-RS-PLANE", 0, PLANE, "rollback by 1 token: no plane holds this state (2 pending, 1 token after the planes)"),
    ("LC-SPEC-COUNT", 1, {"replayed": False}, "~1 accepted draft token counted"),
    ("LC-SPEC-COUNT", 2, {"replayed": True}, "~2 accepted draft tokens counted, in a replayed batch"),
    ("LC-RS-SPLIT", BatchSplit(True, False, 0), {}, "a micro-batch holds tokens of one sequence"),
    ("LC-RS-SPLIT", BatchSplit(False, False, 0), {}, "a micro-batch holds equally many tokens of any sequences"),
    ("LC-RS-SPLIT", BatchSplit(False, True, 4), {}, "a micro-batch holds equally many tokens of consecutive sequences, "
     "the last 4 tokens of a sequence stay together"),
    ("LC-RS-SPLIT.LOST", BatchSplit(False, False, 0), {}, "a micro-batch holds equally many tokens of any sequences"),
    ("LC-RS-SPLIT.LOST", BatchSplit(False, False, 0, True), {}, "a batch that needs several micro-batches is lost"),
    ("LC-SPEC-CKPT", True, DRAFT, "state saved before a draft of 1 token (n_rs_seq 0)"),
    ("LC-SPEC-CKPT", False, DRAFT, "~no state saved before a draft of 1 token (n_rs_seq 0)"),
    ("LC-SPEC-REPLAY", True, {"n_rollback": 2},
     "2 rejected tokens: restores the state saved before the draft and re-evaluates the accepted tokens"),
    ("LC-SPEC-REPLAY", False, {"n_rollback": 1}, "~1 rejected token: removed with seq_rm"),
    ("LC-SPEC-ROOM", "", {"n_batch": 8, "capacity": 9}, "~8 tokens in a batch of 9: they fit"),
    ("LC-SPEC-ROOM", "it fails", {"n_batch": 9, "capacity": 8}, "9 tokens in a batch of 8: it fails"),
]

ASK = {"n_past": 9, "pos_min": 5}
PICK = {"had": [4, 7], "thold": 5, "pos_next": 9, "n_past": 8, "n_tokens": 20, "exact": False}
HAD = "restores checkpoint n_tokens = 7 (candidates: [4, 7]); required: "
CREATE = {"start": 40, "do": True, "pos_min": 0, "near": False, "far": True}
AT = "checkpoint created at n_tokens = 40"
NOT = "no checkpoint at n_tokens = 40"
BY_POSITION = {**CREATE, "place": True, "pos_max": 70}

CHECKPOINTS = [
    ("LC-CKPT-ON", True, {"max": 3, "exact": True, "n_swa": 0}, "context checkpoints enabled (recurrent state)"),
    ("LC-CKPT-ON.ARCH", True, {"max": 3, "recurrent": True, "n_swa": 0},
     "context checkpoints enabled (recurrent state)"),
    ("LC-CKPT-ON", True, {"max": 3, "exact": False, "n_swa": 8}, "context checkpoints enabled (window, n_swa 8)"),
    ("LC-CKPT-ON.WINDOW", True, {"max": 3, "n_swa": 8}, "context checkpoints enabled (window, n_swa 8)"),
    ("LC-CKPT-ON", False, {"max": 0, "exact": True, "n_swa": 0}, "context checkpoints disabled (--ctx-checkpoints 0)"),
    ("LC-CKPT-ON", False, {"max": 3, "exact": False, "n_swa": 0},
     "no context checkpoints: the memory can be cut at any position"),
    ("LC-CKPT-ON.WINDOW", False, {"max": 3, "n_swa": 0}, "no context checkpoints: no window (n_swa 0)"),
    ("LC-CKPT-ON.WINDOW", False, {"max": 0, "n_swa": 0}, "context checkpoints disabled (--ctx-checkpoints 0)"),
    ("LC-CKPT-NEED", CheckpointNeed(5, True), ASK, "checkpoint needed: pos_min 5 >= pos_min_thold 5 (common prefix 9)"),
    ("LC-CKPT-NEED.TH1", CheckpointNeed(4, True), ASK,
     "checkpoint needed: pos_min 5 > pos_min_thold 4 (common prefix 9)"),
    ("LC-CKPT-NEED", CheckpointNeed(0, False), {"n_past": 0, "pos_min": 5}, "~no checkpoint search: n_past = 0"),
    ("LC-CKPT-NEED", CheckpointNeed(0, False), {"n_past": 1, "pos_min": 5},
     "no checkpoint search: the common prefix is all 1 tokens of the slot"),
    ("LC-CKPT-NEED", CheckpointNeed(5, False), ASK,
     "no checkpoint search: the common prefix is all 9 tokens of the slot"),
    ("LC-CKPT-NEED.TH0", CheckpointNeed(4, False), ASK,
     "no checkpoint search: the common prefix is all 9 tokens of the slot"),
    ("LC-CKPT-NEED.TH0", CheckpointNeed(5, False), ASK, "~no checkpoint needed: pos_min 5 <= pos_min_thold 5"),
    ("LC-CKPT-NEED", CheckpointNeed(6, False), ASK, "~no checkpoint needed: pos_min 5 < pos_min_thold 6"),
    ("LC-CKPT-PICK", 0, PICK, "restores checkpoint n_tokens = 4 (candidates: [4, 7])"),
    ("LC-CKPT-PICK", None, PICK, "no usable checkpoint (candidates: [4, 7])"),
    ("LC-CKPT-PICK.PK0", 1, PICK, f"{HAD}pos_min <= 5"), ("LC-CKPT-PICK.PK1", 1, PICK, f"{HAD}pos_min < 5"),
    ("LC-CKPT-PICK.PK2", 1, PICK, f"{HAD}pos_min < 5 or pos_min = 0"),
    ("LC-CKPT-PICK.PK3", 1, PICK, f"{HAD}pos_max <= 9 and (pos_min < 5 or pos_min = 0)"),
    ("LC-CKPT-PICK.V1", 1, PICK, f"{HAD}pos_min < 5 or pos_min = 0"),
    ("LC-CKPT-PICK.V1", 1, {**PICK, "exact": True}, f"{HAD}n_tokens <= 8 and < 20, pos_max <= 9"),
    ("LC-CKPT-PICK.V3", 1, PICK, f"{HAD}pos_max <= 9 and (pos_min < 5 or pos_min = 0)"),
    ("LC-CKPT-PICK.V3", 1, {**PICK, "exact": True}, f"{HAD}the longest with n_tokens <= 8"),
    ("LC-CKPT-PICK.V3", 1, {**PICK, "exact": True, "n_tokens": 8}, f"{HAD}the longest with n_tokens <= 7"),
    ("LC-CKPT-RESTORE", ResumePlace(9, 8), {"n_tokens": 9, "pos_max": 8},
     "restored context checkpoint (n_tokens = 9, pos_max = 8): n_past = 8"),
    ("LC-CKPT-RESTORE.COUNT", ResumePlace(9, 9), {"n_tokens": 9},
     "restored context checkpoint (n_tokens = 9): n_past = 9"),
    ("LC-CKPT-CREATE", True, CREATE, AT), ("LC-CKPT-CREATE", False, CREATE, NOT),
    ("LC-CKPT-CREATE.CR10", True, {**CREATE, "near": True}, f"{AT} (near the prompt's end)"),
    ("LC-CKPT-CREATE.CR10", True, CREATE, f"{AT} (at a user message)"),
    ("LC-CKPT-CREATE.CR10", False, CREATE, f"{NOT} (neither near the prompt's end nor at a user message that is due)"),
    ("LC-CKPT-CREATE.CR10", False, {**CREATE, "do": False}, f"{NOT} (no checkpoints for this request)"),
    ("LC-CKPT-CREATE.CR10", False, {**CREATE, "pos_min": -1}, f"{NOT} (the memory is empty)"),
    ("LC-CKPT-CREATE.NEVER", False, {"start": 40}, f"{NOT} (checkpoints are created after the prompt)"),
    ("LC-CKPT-CREATE.V3", True, {**CREATE, "reused": 40}, f"{AT} (end of the common prefix)"),
    ("LC-CKPT-CREATE.V3", True, {**CREATE, "reused": 40, "near": True}, f"{AT} (near the prompt's end)"),
    ("LC-CKPT-CREATE.V3", True, {**CREATE, "reused": 39}, f"{AT} (at a user message)"),
    ("LC-CKPT-CREATE.V3", False, {**CREATE, "reused": 40},
     f"{NOT} (neither near the prompt's end nor at a user message that is due)"),
    ("LC-CKPT-CREATE.CR8", True, {**CREATE, "near": True, "user": True}, f"{AT} (near the prompt's end)"),
    ("LC-CKPT-CREATE.CR8", True, {**CREATE, "user": True}, f"{AT} (at a user message)"),
    ("LC-CKPT-CREATE.CR8", False, {**CREATE, "user": False},
     f"{NOT} (neither near the prompt's end nor at a user message)"),
    ("LC-CKPT-CREATE.CR8", False, {**CREATE, "user": True}, f"{NOT} (within min_step of the last checkpoint)"),
    ("LC-CKPT-CREATE.CR8", False, {**CREATE, "near": True, "user": False},
     f"{NOT} (within min_step of the last checkpoint)"),
    ("LC-CKPT-CREATE.CR7", True, {**CREATE, "user": 40}, f"{AT} (at the last user message)"),
    ("LC-CKPT-CREATE.CR7", True, {**CREATE, "user": 30}, f"{AT} (near the prompt's end)"),
    ("LC-CKPT-CREATE.CR7", False, {**CREATE, "user": 30},
     f"{NOT} (neither near the prompt's end nor at the last user message)"),
    ("LC-CKPT-CREATE.CR7", False, {**CREATE, "user": 40, "far": False},
     f"{NOT} (within min_step of the last checkpoint)"),
    ("LC-CKPT-CREATE.CR6", True, {**CREATE, "place": True}, f"{AT} (near the prompt's end, or periodic)"),
    ("LC-CKPT-CREATE.CR6", False, {**CREATE, "place": False},
     f"{NOT} (not near the prompt's end, and no periodic checkpoint is due)"),
    ("LC-CKPT-CREATE.CR6", False, {**CREATE, "place": True, "far": False},
     f"{NOT} (within 64 tokens of the last checkpoint)"),
    ("LC-CKPT-CREATE.CR6", False, {**CREATE, "place": True}, f"{NOT} (fewer than 64 tokens)"),
    ("LC-CKPT-CREATE.CR5", True, BY_POSITION, f"{AT} (near the prompt's end or periodic)"),
    ("LC-CKPT-CREATE.CR4", True, BY_POSITION, f"{AT} (before the last batch or periodic)"),
    ("LC-CKPT-CREATE.CR2", False, {**BY_POSITION, "place": False}, f"{NOT} (not before the last batch)"),
    ("LC-CKPT-CREATE.CR2", False, {**BY_POSITION, "pos_max": 63}, f"{NOT} (pos_max 63 < 64)"),
    ("LC-CKPT-CREATE.CR2", False, {**BY_POSITION, "pos_max": 64},
     f"{NOT} (within 64 positions of the last checkpoint)"),
    ("LC-CKPT-PERIODIC", None, {"start": 40}, "~no periodic checkpoint due at n_tokens = 40"),
    ("LC-CKPT-PERIODIC", 0, {"start": 40, "every": 30}, "checkpoint due at n_tokens = 40: last at 0, every 30 tokens"),
    ("LC-CKPT-AFTER", True, {}, "checkpoint created after the whole prompt"),
    ("LC-CKPT-AFTER", False, {}, "~no checkpoint after the whole prompt"),
    ("LC-CKPT-SPACING.CR10", (0, 2), {"min_step": 64}, "erases 2 checkpoints (#0, #2): at most 64 tokens after the "
     "previous checkpoint (of older tasks)"),
    ("LC-CKPT-SPACING.CR11", (), {"min_step": 64, "max": 4}, "~no checkpoint erased for spacing: none is at most 64 "
     "tokens after the previous checkpoint (of older tasks, at the limit of 4)"),
]

SEARCH, QUIET = "asks for a prompt cache search", "no prompt cache search"
LOAD = {"entries": 2, "f_keep": 0.5, "f_sim": 0.25}
ALLOC = {"n_tokens": 1, "size": 2000, "limit_size": 1500, "entries": 1}
UPDATE = {"size": 2000, "limit_size": 1500, "tokens": 3000}

SLOTS = [
    ("LC-SLOT-SELECT", None, {"id_slot": -1}, "no slot is available: the request waits"),
    ("LC-SLOT-SELECT", None, {}, "no slot is available: the request waits"),
    ("LC-SLOT-SELECT", None, {"id_slot": 1}, "no slot is available (id_slot 1)"),
    ("LC-SLOT-SELECT", SlotChoice(1, "lru", 0.0, 0.0, True), {}, f"selected slot 1 by LRU; {SEARCH}"),
    ("LC-SLOT-SELECT", SlotChoice(1, "lcp", 0.5, 0.25, False), {},
     f"selected slot 1 by LCP similarity: f_sim 0.500, f_keep 0.250; {QUIET}"),
    ("LC-SLOT-SELECT", SlotChoice(1, "id", 0.5, 0.25, False), {},
     f"selected slot 1 by id_slot: f_sim 0.500, f_keep 0.250; {QUIET}"),
    ("LC-SLOT-SELECT", SlotChoice(1, "id", 0.0, float("nan"), False), {},
     f"selected slot 1 by id_slot: the slot is empty; {QUIET}"),
    ("LC-SLOT-SELECT", SlotChoice(1, "name", 0.0, 0.0, False), {}, f"selected slot 1 by id_slot; {QUIET}"),
    ("LC-SLOT-SELECT.SL0", SlotChoice(1, "lcp", 0.5, 0.5, False), {"sps": 0.25},
     "selected slot 1 by LCP similarity: 0.500 of the slot's tokens > 0.250"),
    ("LC-SLOT-SELECT.SL0", SlotChoice(1, "lru", 0.0, 0.0, False), {"sps": 0.25}, "selected slot 1 by LRU"),
    ("LC-SLOT-SELECT.SL0", None, {"sps": 0.25}, "no slot is available: the request waits"),
    ("LC-SLOT-SELECT.IDLE", None, {}, "no slot is available: the request waits"),
    ("LC-SLOT-SELECT.IDLE", SlotChoice(1, "lru", 0.0, 0.0, True), {}, f"selected slot 1 by LRU; {SEARCH}"),
    ("LC-SLOT-SELECT.IDLE", SlotChoice(1, "lcp", 0.5, 0.5, False), {},
     f"selected slot 1 by LCP similarity: f_sim 0.500, f_keep 0.500; {QUIET}"),
    ("LC-SLOT-SELECT.IDLE", SlotChoice(1, "id", 0.5, 0.5, False), {},
     f"selected slot 1 by id_slot: f_sim 0.500, f_keep 0.500; {QUIET} (f_keep >= 0.5, or the slot is busy)"),
    ("LC-PC-LOAD.TAKE", True, {"entry": 0}, "the entry is removed from the prompt cache on load"),
    ("LC-PC-LOAD.CLONE", False, {"entry": 0}, "the entry stays in the prompt cache; the slot gets a copy"),
    ("LC-PC-LOAD", None, {**LOAD, "entries": 0}, "the prompt cache is empty"),
    ("LC-PC-LOAD", 0, LOAD, "found a better prompt: entry 0 of 2 with f_keep 0.500, f_sim 0.250"),
    ("LC-PC-LOAD", None, LOAD, "no better prompt among 2 entries (slot: f_keep 0.500, f_sim 0.250)"),
    ("LC-PC-LOAD", None, {**LOAD, "f_keep": 0.0, "entries": 1},
     "no better prompt among 1 entry (slot: f_keep 0.000, f_sim 0.250)"),
    ("LC-PC-LOAD", None, {**LOAD, "f_keep": -1.0}, "no better prompt among 2 entries (the slot is empty)"),
    ("LC-PC-ALLOC", Admission("already"), ALLOC, "not saved: an entry of the prompt cache starts with these 1 token"),
    ("LC-PC-ALLOC", Admission("too_big"), ALLOC, "not saved: 2,000 bytes exceed the prompt cache's limit of 1,500"),
    ("LC-PC-ALLOC", Admission("store"), ALLOC, "saved to prompt cache: 1 token (1 entry before)"),
    ("LC-PC-ALLOC", Admission("store", (0,)), ALLOC,
     "saved to prompt cache: 1 token (1 entry before); removes 1 entry that is a prefix of it"),
    ("LC-PC-ALLOC", Admission("store", (0, 1), 1), {**ALLOC, "entries": 4}, "saved to prompt cache: 1 token (4 entries "
     "before); removes 2 entries that are prefixes of it; evicts 1 oldest entry"),
    ("LC-PC-UPDATE", Eviction(0, 0, 9000), UPDATE, "~nothing evicted (3,000 of 9,000 tokens)"),
    ("LC-PC-UPDATE", Eviction(0, 0, 9000), {**UPDATE, "tokens": 0}, "~nothing evicted: the prompt cache is empty"),
    ("LC-PC-UPDATE", Eviction(1, 0, 9000), UPDATE, "evicts 1 oldest entry (2,000 bytes, limit 1,500)"),
    ("LC-PC-UPDATE", Eviction(0, 2, 2500), UPDATE, "evicts 2 oldest entries (3,000 tokens, limit 2,500)"),
    ("LC-PC-UPDATE", Eviction(1, 1, 2500), UPDATE,
     "evicts 2 oldest entries (2,000 bytes, limit 1,500; 3,000 tokens, limit 2,500)"),
    ("LC-IDLE-SAVE", IdlePlan(True, True, ""), {"held": 0}, "~idle slot is empty"),
    ("LC-IDLE-SAVE", IdlePlan(True, False, ""), {"held": 1}, "~idle slot of 1 token not offered to the prompt cache"),
    ("LC-IDLE-SAVE", IdlePlan(True, True, ""), {"held": 2}, "idle slot of 2 tokens offered to the prompt cache"),
    ("LC-IDLE-SAVE", IdlePlan(True, True, "after"), {"held": 2},
     "idle slot of 2 tokens offered to the prompt cache, then cleared (unified KV cache)"),
    ("LC-SLOT-ID", 1, {"id_slot": 1, "n_slots": 3}, "~id_slot 1"),
    ("LC-SLOT-ID", None, {"id_slot": 5, "n_slots": 3}, "no slot 5: the request is refused"),
    ("LC-SLOT-ID", 2, {"id_slot": 5, "n_slots": 3}, "id_slot 5 modulo 3 slots is slot 2"),
    ("LC-CLEAR", True, {"checkpoints": 0}, "~slot cleared"),
    ("LC-CLEAR", True, {"checkpoints": 1}, "slot cleared; 1 checkpoint erased"),
    ("LC-CLEAR", False, {"checkpoints": 2}, "slot cleared; 2 checkpoints not erased"),
    ("LC-SLOT-FILE", (1, 2), {"n": 3}, "slot file: 2 of 3 checkpoints"),
    ("LC-SLOT-FILE", (), {"n": 0}, "~slot file: 0 of 0 checkpoints"),
]

OLDER = [
    ("LC-PROMPT-FIT", None, {"n_tokens": 9, "n_ctx": 64}, "~9 tokens fit into n_ctx 64"),
    ("LC-PROMPT-FIT", Plan(keep=8, lose=30), {"n_ctx": 64},
     "input truncated: 8 tokens kept, the next 30 dropped (n_ctx 64)"),
    ("LC-LORA-LIST", (1.0, 0.5), {"given": 1}, "~adapters 0:1, 1:0.5: the request's list"),
    ("LC-LORA-LIST", (), {"given": 0}, "~adapters never used: the server's, the request has no list"),
    ("LC-NO-SUCH-RULE", 1, {}, None),
]


@pytest.mark.parametrize(("rule", "value", "because", "text"), [*PROMPT, *MEMORY, *CHECKPOINTS, *SLOTS, *OLDER])
def test_a_decision_has_its_sentence(rule, value, because, text):
    """A sentence after "~" reports that nothing changed."""
    said = SENTENCES.say(rule, value, because)
    assert (f"~{said}" if isinstance(said, NoEffect) else said) == text
