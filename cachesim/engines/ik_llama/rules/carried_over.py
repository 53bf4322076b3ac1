"""State of earlier requests that a server carries over: the chat parser of a slot, and the system prompt.

Source: ik_llama.cpp examples/server/server-context.cpp launch_slot_with_task, system_prompt_set (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.ik_llama.source_files import CONTEXT, ik_llama
from cachesim.engines.rule import Decision, Role, rule


class ClearedObjects(NamedTuple):
    """Objects that a change of the system prompt clears besides the target's memory: the slots' tokens with their
    checkpoints, the draft context, and the entries of the prompt cache."""

    slots: bool
    companion: bool
    entries: bool


@rule("IK-PARSER.OWN", Role.PROMPT, ik_llama(CONTEXT, "launch_slot_with_task", "8337e4cd3"), since="#1794 (c35189d83)")
def parser_own(chat: bool, last: bool) -> Decision:
    """True if the answer is parsed with the parser of a chat: only if the request is a chat."""
    return Decision(chat, {"chat": chat, "last": last})


# [Gone in ik_llama@1889-base]
@rule("IK-PARSER.LAST", Role.PROMPT, ik_llama(CONTEXT, "launch_slot_with_task", "c35189d83^"),
      since="#1376 (e0596bf61)", until="#1794")
def parser_last(chat: bool, last: bool) -> Decision:
    """True if the answer is parsed with the parser of a chat: if the request is a chat, or an earlier request
    of the slot was. The parser of a chat rejects plain text, and the process ends."""
    return Decision(chat or last, {"chat": chat, "last": last})


@rule("IK-SYSTEM.ALL", Role.DROP, ik_llama(CONTEXT, "system_prompt_set, kv_cache_clear", "8337e4cd3"),
      since="#1860 (d51036a0c)")
def system_clears_all(n_tokens: int) -> Decision:
    """Clear the slots, the draft context and the prompt cache when a request sets a system prompt of ``n_tokens``
    tokens."""
    return Decision(ClearedObjects(True, True, True), {"n_tokens": n_tokens})


# [Gone in ik_llama@1889-base]
@rule("IK-SYSTEM.MEMORY", Role.DROP, ik_llama(CONTEXT, "system_prompt_set, kv_cache_clear", "d51036a0c^"),
      until="#1860")
def system_clears_memory(n_tokens: int) -> Decision:
    """Clear only the memory of the target when a request sets a system prompt: token lists, checkpoints, draft
    context and prompt cache keep the state of the old one."""
    return Decision(ClearedObjects(False, False, False), {"n_tokens": n_tokens})
