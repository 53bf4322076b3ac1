"""Sentences of decisions, one for each branch: those of decisions with an effect, and those of decisions without."""

from __future__ import annotations

from types import SimpleNamespace as Plan

import pytest

from cachesim.engines.ik_llama.rules.checkpoint_restore import CheckpointNeed, ResumePlace
from cachesim.engines.ik_llama.rules.common_prefix import CommonLength
from cachesim.engines.ik_llama.rules.context_shift import PromptShift, Shift
from cachesim.engines.ik_llama.rules.prompt_cache import Admission
from cachesim.engines.ik_llama.rules.slot_selection import SlotChoice
from cachesim.engines.ik_llama.rules.trim import RemovalRepair
from cachesim.engines.ik_llama.sentences import SENTENCES
from cachesim.engines.shared.prompt_cache_limits import Eviction
from cachesim.engines.shared.sentences import NoEffect

LOAD = {"entries": 2, "f_keep": 0.5, "f_sim": 0.25}
SAVE = {"held": 10, "f_keep": 0.25, "least_keep": 0.5, "n_min": 0}
FULL = {"held": 255, "n_ctx": 256}
SPEC = {"n_batch": 4, "capacity": 1}
ONE = {"n_past_prompt": 9, "asked": 9, "searched": False}
SLOTS = [
    ("IK-SLOT-SELECT", None, {"id_slot": -1}, "no slot is available: the request waits"),
    ("IK-SLOT-SELECT", None, {"id_slot": 0}, "slot 0 is not available"),
    ("IK-SLOT-SELECT", SlotChoice(1, "lru"), {"sps": 0.25}, "selected slot 1 by LRU"),
    ("IK-SLOT-SELECT", SlotChoice(1, "name"), {"sps": 0.25}, "selected slot 1 by id_slot"),
    ("IK-SLOT-SELECT", SlotChoice(1, "lcp", 0.5), {"sps": 0.25}, "selected slot 1 by LCP similarity: 0.500 > 0.250"),
    ("IK-PREFIX", CommonLength(9, 9), {"held": 20, "asked": 30},
     "n_past = 9 (common prefix; slot 20, prompt 30 tokens)"),
    ("IK-PREFIX", CommonLength(9, 8), {"held": 20, "asked": 30},
     "n_past = 9 of 20 in the slot, 8 of 30 in the prompt (same text)"),
    ("IK-ONE", 0, ONE, "~n_past = 9 of 9"),
    ("IK-ONE", 1, ONE,
     "n_past - 1 = 8: at least one token must be evaluated for logits (before the checkpoint search)"),
    ("IK-ONE", 1, {**ONE, "searched": True},
     "n_past - 1 = 8: at least one token must be evaluated for logits (after the checkpoint search)"),
    ("IK-PC-LOAD", None, {**LOAD, "entries": 0}, "the prompt cache is empty"),
    ("IK-PC-LOAD", None, LOAD, "no better prompt among 2 entries (slot: f_keep 0.500, sim 0.250)"),
    ("IK-PC-LOAD", 0, LOAD, "found a better prompt: entry 0 of 2 with f_keep 0.500, sim 0.250"),
    ("IK-PC-SAVE", True, SAVE, "slot of 10 tokens offered to prompt cache: f_keep 0.250 < 0.500"),
    ("IK-PC-SAVE", False, {**SAVE, "held": 0}, "slot not offered to prompt cache: it is empty"),
    ("IK-PC-SAVE", False, {**SAVE, "n_min": 11}, "slot of 10 tokens not offered to prompt cache: fewer than 11 tokens"),
    ("IK-PC-SAVE", False, {**SAVE, "n_min": 10, "f_keep": 0.75},
     "slot of 10 tokens not offered to prompt cache: f_keep 0.750 >= 0.500"),
    ("IK-PC-ALLOC", Admission("already"), {"entries": 1},
     "not saved: an entry of the prompt cache contains the prompt (1 entry before)"),
    ("IK-PC-ALLOC", Admission("store", (0,)), {"entries": 2},
     "saved to prompt cache (2 entries before); removes 1 entry that is a prefix of it"),
    ("IK-PC-UPDATE", Eviction(0, 0, 0), {"size": 1000, "limit_size": 2000}, "~nothing evicted (1,000 of 2,000 bytes)"),
    ("IK-PC-UPDATE", Eviction(1, 1, 0), {"size": 3000, "limit_size": 2000},
     "evicts 2 oldest entries (3,000 of 2,000 bytes)"),
    ("IK-FULL", "", FULL, "~context not full (255 of 256 tokens)"),
    ("IK-FULL", "shift", FULL, "context full (255 of 256 tokens): context shift"),
    ("IK-FULL", "error", FULL, "context full (255 of 256 tokens): the request fails"),
    ("IK-SHIFT", None, {"held": 255}, "context full at 255 tokens: n_discard = 0, no context shift"),
    ("IK-SHIFT", Shift(4, 251, 125), {"held": 255}, "context shift at 255 tokens: n_keep = 4, n_discard = 125"),
    ("IK-PROMPT-SHIFT", PromptShift(4, 9, 18), {"asked": 300, "n_ctx": 256},
     "prompt of 300 tokens does not fit n_ctx 256: n_keep = 4, n_discard = 18"),
    ("IK-TRIM-FAILED", RemovalRepair(reset=True), {},
     "seq_rm failed: target and draft context cleared, checkpoints erased"),
    ("IK-TRIM-FAILED", RemovalRepair(wipe=True), {},
     "seq_rm of the draft context failed: only the draft context is cleared"),
    ("IK-TRIM-FAILED", RemovalRepair(), {}, "~seq_rm worked"),
    ("IK-GRAPH", False, {"rows": (1, 2), "last": ()}, "~graph built for recurrent row 1, 2"),
    ("IK-GRAPH", True, {"rows": (1,), "last": (0,), "zeroes": (True,)},
     "graph of the last micro-batch used again: it zeroes recurrent row 0; the tokens belong to row 1"),
    ("IK-GRAPH", True, {"rows": (1, 2), "last": (0, 3), "zeroes": (True, False)},
     "graph of the last micro-batch used again: it zeroes recurrent row 0, 3; the tokens belong to row 1, 2"),
    ("IK-GRAPH", True, {"rows": (1,), "last": None, "zeroes": (False,)},
     "graph of the last micro-batch used again: it does not zero recurrent row ; the tokens belong to row 1"),
    ("IK-SPEC-SAVE", (True, True), SPEC, "~states saved for the draft (4 tokens, 1 saved state)"),
    ("IK-SPEC-SAVE", (False, True), SPEC, "states not saved (4 tokens, 1 saved state): drafts all the same"),
    ("IK-SPEC-SAVE", (False, False), SPEC,
     "states not saved (4 tokens, 1 saved state): evaluates only the sampled token"),
]
ASK = {"n_past": 9, "held": 20, "pos_min": 5, "thold": 8, "private": False, "ckpts": [4, 7]}
CKPT = {"start": 70, "last": 68, "pos_max": 69}
INTERVAL = {"pos_max": 69, "last": 5, "interval": 64}
CHECKPOINTS = [
    ("IK-CKPT-NEED", CheckpointNeed(True), ASK, "checkpoint needed: pos_min 5 (common prefix 9)"),
    ("IK-CKPT-NEED", CheckpointNeed(False), {**ASK, "n_past": 0}, "~no checkpoint search: n_past = 0"),
    ("IK-CKPT-NEED", CheckpointNeed(False), {**ASK, "held": 9},
     "no checkpoint search: the common prefix is all 9 tokens of the slot"),
    ("IK-CKPT-NEED.BEYOND", CheckpointNeed(False), ASK, "~no checkpoint needed: pos_min 5 <= pos_min_thold 8"),
    ("IK-CKPT-NEED.REACHED", CheckpointNeed(True), {**ASK, "pos_min": 8},
     "checkpoint needed: pos_min 8 >= pos_min_thold 8 (common prefix 9)"),
    ("IK-CKPT-NEED.OR-PRIVATE", CheckpointNeed(True), ASK,
     "checkpoint needed: the model has a state of its own (common prefix 9)"),
    ("IK-CKPT-NEED.DEEP", CheckpointNeed(True), {**ASK, "pos_min": 11},
     "checkpoint needed: pos_min 11 > pos_min_thold 8 + 2 (common prefix 9)"),
    ("IK-CKPT-PICK", None, ASK, "no usable checkpoint (candidates: pos_max 4, 7)"),
    ("IK-CKPT-PICK.WITHIN", 0, ASK,
     "restores checkpoint pos_max = 4 (candidates: pos_max 4, 7); required: pos_max < n_past 9"),
    ("IK-CKPT-RESUME", ResumePlace(5, 5), ASK, "restored checkpoint (pos_max = 4): n_past = 5"),
    ("IK-CKPT-RESUME", ResumePlace(5, 4), ASK, "restored checkpoint (pos_max = 4): n_past = 5, token 4 of the prompt"),
    ("IK-CKPT-RESET", ResumePlace(9, 9), ASK, "no checkpoint restored: n_past = 9, on a state that is past it"),
    ("IK-CKPT-RESET", ResumePlace(0, 0), ASK, "forcing full prompt re-processing (n_past = 0; common prefix 9)"),
    ("IK-CKPT-RESET", ResumePlace(0, 0, True), ASK,
     "forcing full prompt re-processing (n_past = 0; common prefix 9); the slot's tokens are dropped"),
    ("IK-CKPT-CREATE", True, CKPT, "checkpoint created at n_tokens = 70"),
    ("IK-CKPT-CREATE", False, CKPT, "no checkpoint at n_tokens = 70"),
    ("IK-CKPT-CREATE", None, CKPT, "checkpoint at n_tokens = 70, or none: depends on an uninitialised n_tokens"),
    ("IK-CKPT-CREATE.TOKENS", False, CKPT, "no checkpoint at n_tokens = 70 (the last one has 68 tokens)"),
    ("IK-CKPT-CREATE.TOKENS", False, {**CKPT, "start": 63}, "no checkpoint at n_tokens = 63 (fewer than 64 tokens)"),
    ("IK-CKPT-CREATE.TOKENS", False, {**CKPT, "start": 64},
     "no checkpoint at n_tokens = 64 (the last one has 68 tokens)"),
    ("IK-CKPT-EVICT", 1, {"pos_max": [4, 7]}, "erases checkpoint pos_max = 7 to make room"),
    ("IK-CKPT-EVICT.OLDEST", 0, {"pos_max": [4, 7]}, "erases checkpoint pos_max = 4 to make room: the oldest"),
    ("IK-CKPT-INTERVAL.ONE-EARLY", True, INTERVAL, "checkpoint due: pos_max 69, last 5, interval 64 - 1"),
    ("IK-CKPT-CREATE.FOUR", False, {**CKPT, "start": 5, "states": True},
     "no checkpoint at n_tokens = 5 (the last one has 68 tokens)"),
    ("IK-CKPT-INTERVAL", False, {**INTERVAL, "interval": 0}, "~no checkpoints at intervals"),
    ("IK-CKPT-INTERVAL", True, INTERVAL, "checkpoint due: pos_max 69, last 5, interval 64"),
    ("IK-CKPT-INTERVAL", False, {**INTERVAL, "interval": 1}, "~no checkpoint due: pos_max 69, last 5, interval 1"),
    ("IK-CKPT-BREAK", (64, False), {"start": 0, "tolerance": 5}, "batch: tokens 0..63"),
    ("IK-CKPT-BREAK", (64, True), {"start": 9, "tolerance": 5},
     "batch: tokens 9..63, ends 5 tokens before the end of the prompt for a checkpoint"),
    ("IK-MEDIA-SHIFT", Plan(n_keep=3, n_discard=9), {}, "context shift around images: n_keep = 3, n_discard = 9"),
    ("IK-NO-SUCH-RULE", 1, {}, None),
]


@pytest.mark.parametrize(("rule", "value", "because", "text"), [*SLOTS, *CHECKPOINTS])
def test_a_decision_has_its_sentence(rule, value, because, text):
    """A sentence after "~" reports that nothing changed."""
    said = SENTENCES.say(rule, value, because)
    assert (f"~{said}" if isinstance(said, NoEffect) else said) == text
