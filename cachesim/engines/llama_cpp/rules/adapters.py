"""Adapters (LoRA, and activated LoRA: aLoRA): which are in force, what of a slot is reused under them.

A list of adapters is a tuple of scales, by adapter. A slot that was never used has the empty list, which equals none.
Source: llama.cpp tools/server/server-context.cpp launch_slot_with_task, server-common.cpp (b11549).
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import BadInput, quoted
from cachesim.base.tokens import Tokens
from cachesim.engines.llama_cpp.source_files import COMMON, CONTEXT, TASK, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

Scales = tuple[float, ...]
NOT_FOUND = -1
TOKENS = "tools/server/server-common.cpp"


class Adapter(NamedTuple):
    """An adapter of the command line. ``invocation``: the tokens that activate an aLoRA, () = a plain adapter."""

    scale: float
    invocation: Tokens = ()


_ADAPTER = re.compile(r"(-?\d+(?:\.\d+)?)(?:@(\d+(?:\.\d+)*))?")
_SCALE = re.compile(r"(-?\d+):(-?\d+(?:\.\d+)?)")


def read_adapters(text: str) -> tuple[Adapter, ...]:
    """Return the adapters of the option ``lora_scaled``: scales separated by commas, each with the invocation tokens of
    an aLoRA: ``1, 0.5, 0@101.102``. Raise BadInput."""
    return tuple(Adapter(_float32(found[1]), tuple(map(int, found[2].split("."))) if found[2] else ())
                 for found in _matches(_ADAPTER, text, "adapters as in 1, 0.5, 0@101.102"))  # fmt: skip


def read_scales(text: str) -> dict[int, float]:
    """Return the scales of a list of adapters, ``0:1, 2:0.5``, by id. Raise BadInput."""
    return {int(found[1]): _float32(found[2]) for found in _matches(_SCALE, text, "scales as in 0:1, 2:0.5")}


def _matches(form: re.Pattern[str], text: str, expected: str) -> list[re.Match[str]]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    found = [form.fullmatch(part) for part in parts]
    if None in found:
        raise BadInput(f"lora {quoted(text)}, expected {expected}")
    return [one for one in found if one is not None]


def _float32(text: str) -> float:
    return float(np.float32(text))


class RequestScales(NamedTuple):
    """Scales before and in a request. ``asked``: number of entries in the request's list, 0 = no list."""

    before: Scales
    now: Scales
    asked: int


def enabled(scales: Scales) -> list[int]:
    """Return the adapters with a scale above 0."""
    return [i for i, scale in enumerate(scales) if scale > 0]


def nonzero(scales: Scales) -> list[int]:
    """Return the adapters with another scale than 0."""
    return [i for i, scale in enumerate(scales) if scale]


def all_activated(scales: Scales, adapters: Sequence[Adapter]) -> bool:
    """True if at least one scale is not 0, and all those adapters are aLoRAs."""
    return any(scales) and all(adapters[i].invocation for i in nonzero(scales))


@rule("LC-LORA-LIST", Role.PROMPT, llama_cpp(CONTEXT, "construct_lora_list", "b11549"))
def adapter_list(given: Mapping[int, float], served: Scales) -> Decision:
    """Return the scales of a request: its list is complete, so that an adapter that it does not name is off, and ids
    of no adapter are ignored. Without a list, the scales of the server."""
    scales = tuple(given.get(i, 0.0) for i in range(len(served))) if given else served
    return Decision(scales, {"given": len(given), "served": served})


@rule("LC-LORA-IDS", Role.FAIL, llama_cpp(TOKENS, "parse_lora_request", "b11549"))
def ids_ignored(given: Sequence[int], adapters: int) -> Decision:
    """Accept a list with ids of no adapter, which LC-LORA-LIST ignores. Return "" = accepted."""
    return Decision("", {"given": tuple(given), "adapters": adapters})


def _must_clear(lists: RequestScales, adapters: Sequence[Adapter], before: Sequence[int]) -> bool:
    """True unless only aLoRAs were active before, and only aLoRAs are now."""
    kept = not before or all_activated(lists.before, adapters)
    return lists.now != lists.before and not (kept and all_activated(lists.now, adapters))


@rule("LC-LORA-CLEAR", Role.DROP, llama_cpp(CONTEXT, "launch_slot_with_task, lora_should_clear_cache", "b11549"))
def clear_for_list(lists: RequestScales, adapters: Sequence[Adapter]) -> Decision:
    """True if a slot loses its tokens and checkpoints because the request has other adapters. Nothing is
    compared for a request without a list, and an adapter with a negative scale counts as off. A change between aLoRAs
    keeps the slot."""
    clears = bool(lists.asked) and _must_clear(lists, adapters, enabled(lists.before))
    return Decision(clears, lists._asdict())


@rule("LC-ALORA-SCAN", Role.PROMPT, llama_cpp(CONTEXT, 'launch_slot_with_task "alora_invocation_start"', "b11549"))
def invocation_start(prompt: Sequence[int], invocation: Sequence[int]) -> Decision:
    """Return the index of the last invocation sequence in the prompt, -1 = none. The search goes backwards, and a
    token that breaks a match is not tried as the end of another, so that a sequence followed by its own end is
    missed."""
    left = len(invocation) - 1
    found = NOT_FOUND
    for i in range(len(prompt) - 1, -1, -1):
        if prompt[i] != invocation[left]:
            left = len(invocation) - 1
        elif left:
            left -= 1
        else:
            found = i
            break
    return Decision(found, {"prompt": len(prompt), "invocation": len(invocation)})


@rule("LC-ALORA-ONE", Role.FAIL, llama_cpp(CONTEXT, 'launch_slot_with_task "multiple aLoRAs"', "b11549"))
def one_activated(scales: Scales, adapters: Sequence[Adapter]) -> Decision:
    """Refuse a request with several aLoRAs, or with a single one whose scale is negative. Return the error text,
    "" = accepted."""
    refused = all_activated(scales, adapters) and len(enabled(scales)) != 1
    return Decision("Cannot run multiple aLoRAs in a single request" if refused else "", {"enabled": enabled(scales)})


@rule("LC-ALORA-CAP", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "alora_invocation_start"', "b11549"))
def cap_before_start(n_past: int, start: int) -> Decision:
    """Return the tokens to reuse for a prompt with an invocation sequence at ``start``: at most start - 1. A sequence
    at the start of the prompt caps nothing."""
    return Decision(min(n_past, start - 1) if start > 0 else n_past, {"n_past": n_past, "start": start})


@rule("LC-ALORA-SPLIT", Role.PLAN, llama_cpp(CONTEXT, 'pre_decode "alora_scale"', "b11549"))
def split_at_start(held: int, start: int, active: bool, follows: bool) -> Decision:
    """Return where the batch ends and up to where it is evaluated without the aLoRA: one token before the invocation
    sequence. 0 = everything is evaluated with it. ``follows``: another slot leads the batch, which changes nothing."""
    return Decision(start - 1 if active and start - 1 > held else 0, {"held": held, "start": start})


@rule("LC-ALORA-BACK", Role.PLAN, llama_cpp(CONTEXT, 'pre_decode "re-enabling alora"', "b11549"))
def back_to_leader(split: int, leader: int) -> Decision:
    """Return the slot whose list gets the scale of a split aLoRA back before the batch is decoded: the one that leads
    the batch, also if the request that was split failed and another slot leads in its place."""
    return Decision(leader, {"split": split, "leader": leader})


@rule("LC-LORA-BATCH", Role.ADMIT, llama_cpp(CONTEXT, "can_batch_with", "b11549"))
def joins_batch(leader: Scales, own: Scales) -> Decision:
    """True if a slot joins a batch: if its adapters and scales are those of the batch's first slot. Others wait
    until it has ended."""
    return Decision(leader == own, {"leader": leader, "own": own})


@rule("LC-LORA-LEAD", Role.ADMIT, llama_cpp(CONTEXT, 'pre_decode "slot_batched = &slot"', "b11549"))
def leads_if_filled() -> Decision:
    """True if a slot still leads a batch if its request failed before a token was added: no, the next slot
    leads."""
    return Decision(False, {})


@rule("LC-LORA-INIT", Role.SETUP, llama_cpp(COMMON, "lora_init_without_apply", "b11549"))
def scales_at_start(scales: Scales, without_apply: bool) -> Decision:
    """Return the scales of the server at its start: those of the flags, also with --lora-init-without-apply, which
    only leaves the library's context without adapters until the first batch."""
    return Decision(scales, {"without_apply": without_apply})


@rule("LC-ALORA-READ", Role.SETUP, llama_cpp("src/llama-adapter.cpp", "llama_adapter_lora_init_impl", "b11549"))
def invocation_read(invocation: Sequence[int]) -> Decision:
    """Return the invocation tokens of an adapter: those of its file."""
    return Decision(tuple(invocation), {"invocation": tuple(invocation)})


class SavedAdapters(NamedTuple):
    """What is noted of saved tokens besides themselves. ``active``: index of the first row that an aLoRA computed, -1 =
    none; None = not noted: a slot that gets the tokens keeps its own number."""

    scales: Scales
    active: int | None = None


@rule("LC-LORA-SAVE", Role.CONSULT, llama_cpp(CONTEXT, "get_available_slot", "b11549"))
def save_by_likeness(own: Scales, asked: Scales) -> Decision:
    """Return False: whether a slot is saved before a request with other adapters depends on the tokens, although this
    request may clear it."""
    return Decision(False, {"own": own, "asked": asked})


@rule("LC-LORA-FORGET", Role.DROP, llama_cpp(CONTEXT, 'launch_slot_with_task "slot.prompt.clear"', "b11549"))
def forget_tokens(held: int) -> Decision:
    """Return False: a slot that loses its tokens for other adapters leaves its cells in the memory until its next
    prompt."""
    return Decision(False, {"held": held})


@rule("LC-LORA-ENTRY", Role.STORE, llama_cpp(TASK, "server_prompt_cache::alloc, load", "b11549"))
def entry_notes_nothing(slot: SavedAdapters) -> Decision:
    """Return what an entry of the prompt cache notes of the slot besides its tokens: nothing. It is found for other
    adapters, too."""
    return Decision(None, {"scales": slot.scales, "active": slot.active})


@rule("LC-LORA-FILE", Role.READ_FILE, llama_cpp(CONTEXT, 'process_single_task "SLOT_RESTORE"', "b11549"))
def restored_under_own(slot: SavedAdapters, file: SavedAdapters | None, adapters: int) -> Decision:
    """Return the scales that a slot has after a restore: those that it had before, whatever the file's tokens were
    computed under."""
    return Decision(SavedAdapters(slot.scales), {"own": slot.scales, "file": file.scales if file else None})


@rule("LC-ALORA-START", Role.PROMPT, llama_cpp(CONTEXT, 'launch_slot_with_task, reset "alora_invocation_start"',
                                               "b11549"))  # fmt: skip
def start_stays(start: int) -> Decision:
    """Return the start of the invocation sequence at a launch: that of the request before if it was refused, so that
    it caps what the next request reuses."""
    return Decision(start, {"start": start})


@rule("LC-ALORA-ROWS", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "alora_invocation_start"', "b11549"))
def rows_count_alike(n_past: int, active: int) -> Decision:
    """Return the tokens to reuse of a slot whose rows from ``active`` on were computed with an aLoRA: all, also those
    that the request would compute without it."""
    return Decision(n_past, {"n_past": n_past, "active": active})


@rule("LC-ALORA-CHUNKS", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "n_cache_reuse"', "b11549"))
def chunks_behind_cap(start: int, active: int) -> Decision:
    """Return True: --cache-reuse also moves blocks that lie behind the start of an invocation sequence."""
    return Decision(True, {"start": start, "active": active})
