"""Rules about adapters in older builds, newest first.

Before #18263 a task had a complete list of scales from the start: that of the request, or that of the server.
Source: llama.cpp tools/server/server-context.cpp, before #17595 tools/server/server.cpp (read, not run).
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.llama_cpp.rules.adapters import (
    NOT_FOUND,
    Adapter,
    RequestScales,
    all_activated,
    enabled,
)
from cachesim.engines.llama_cpp.source_files import CONTEXT, SERVER, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


# [Gone in llama_cpp@b10587]
@rule("LC-LORA-FORGET.LIST", Role.DROP,
      llama_cpp(CONTEXT, 'launch_slot_with_task "slot.prompt.tokens.clear"', "73618f27a"), until="#25649 (b10011)")
def forget_list(held: int) -> Decision:
    """Return None: a slot that loses its tokens for other adapters keeps its checkpoints, and its cells stay in the
    memory until its next prompt."""
    return Decision(None, {"held": held})


# [Gone in llama_cpp@b7789]
@rule("LC-ALORA-START.LAUNCH", Role.PROMPT,
      llama_cpp(CONTEXT, 'launch_slot_with_task "slot.reset"', "0759b09c9"), until="#18547 (b7746)")
def start_forgotten(start: int) -> Decision:
    """Return the start of the invocation sequence at a launch: none, because the launch resets the slot first."""
    return Decision(NOT_FOUND, {"start": start})


# [Gone in llama_cpp@b7789]
@rule("LC-LORA-CLEAR.COMPARED", Role.DROP,
      llama_cpp(CONTEXT, "launch_slot_with_task, lora_should_clear_cache", "0759b09c9",
                note="before #15327 every change clears, which is the same without aLoRAs"), until="#18263 (b7508)")
def clear_compared(lists: RequestScales, adapters: Sequence[Adapter]) -> Decision:
    """True if a slot loses its tokens and checkpoints because the request has other adapters. A request without
    a list has that of the server, and is compared, too. A change between aLoRAs keeps the slot."""
    kept = not enabled(lists.before) or all_activated(lists.before, adapters)
    clears = lists.now != lists.before and not (kept and all_activated(lists.now, adapters))
    return Decision(clears, {**lists._asdict(), "asked": len(lists.now)})


# [Gone in llama_cpp@b7789]
@rule("LC-LORA-IDS.REFUSED", Role.FAIL, llama_cpp("tools/server/server-common.cpp", "parse_lora_request", "0759b09c9"),
      until="#18263 (b7508)")  # fmt: skip
def ids_refused(given: Sequence[int], adapters: int) -> Decision:
    """Refuse a list with an id of no adapter. Return the error text, "" = accepted."""
    known = all(0 <= one < adapters for one in given)
    return Decision("" if known else "invalid adapter id", {"given": tuple(given), "adapters": adapters})


# [Gone in llama_cpp@b7400]
@rule("LC-LORA-LEAD.ASSERTS", Role.FAIL, llama_cpp(SERVER, 'can_batch_with "GGML_ASSERT(task)"', "d8b860a21"),
      since="#16391 (b6723)", until="#17263 (b7059)")  # fmt: skip
def lead_asserts() -> Decision:
    """True if a slot still leads a batch if its request failed before a token was added: yes, and the process
    ends when another slot asks to join. Return the last message."""
    return Decision("GGML_ASSERT(task) failed", {})


# [Gone in llama_cpp@b6914]
@rule("LC-ALORA-CAP.BELOW", Role.PREFIX, llama_cpp(SERVER, 'update_slots "alora_invocation_start >= 0"', "f6dcda390"),
      until="#16818 (b6890)")  # fmt: skip
def cap_below_zero(n_past: int, start: int) -> Decision:
    """Return the tokens to reuse for a prompt with an invocation sequence at ``start``: at most start - 1. This is -1
    for a sequence at the start of the prompt, and ends the process."""
    return Decision(min(n_past, start - 1), {"n_past": n_past, "start": start})


# [Gone in llama_cpp@b6740]
@rule("LC-LORA-LEAD.STAYS", Role.ADMIT, llama_cpp(SERVER, 'update_slots "slot_batched = &slot"', "f6dcda390"),
      until="#16391 (b6723)")  # fmt: skip
def leads_unfilled() -> Decision:
    """True if a slot still leads a batch if its request failed before a token was added: yes, slots with other
    adapters wait for the next batch."""
    return Decision(True, {})


# [Gone in llama_cpp@b6685]
@rule("LC-ALORA-READ.NONE", Role.SETUP, llama_cpp(pull=15327), until="#15327 (b6396)")
def invocation_ignored(invocation: Sequence[int]) -> Decision:
    """Return the invocation tokens of an adapter: none. An aLoRA is a plain adapter."""
    return Decision((), {"invocation": tuple(invocation)})
