"""How much of a new prompt need not be evaluated, and what must be taken back?

S, N   the slot's tokens and their number       P, T   the new prompt and its length
Source: llama.cpp tools/server/server-context.cpp, update_slots (3f545be), NPAST-ONE.
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.llama_cpp.source_files import CONTEXT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule
from cachesim.tokens import common_prefix


@rule("LC-NPAST-LCP", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "cache_prompt" "get_common_prefix"', "3f545be"))
def n_past_lcp(lcp: int, cache_prompt: bool) -> Decision:
    """The common prefix of slot and prompt, or nothing if the client asks for a fresh evaluation."""
    return Decision(lcp if cache_prompt else 0, {"lcp": lcp, "cache_prompt": cache_prompt})


@rule("LC-TASK.COMPLETION", Role.PROMPT,
      llama_cpp(CONTEXT, 'get_available_slot "SERVER_TASK_TYPE_COMPLETION", '
                'pre_decode "SERVER_TASK_TYPE_COMPLETION"',
                "3f545be"))
def completions_only(kind: str) -> Decision:
    """Only a completion asks the prompt cache and leaves checkpoints; an infill or an embedding trims and overwrites
    its slot all the same. Value: does this task? No recording shows the others: from the text only."""
    return Decision(kind == "completion", {"kind": kind})


POOLED = ("embedding", "rerank")
"""Tasks that generate nothing: they end with their prompt."""


SILENT_TASKS = (*POOLED, "decision")
"""All tasks that end with their prompt."""


@rule("LC-SHARED.UNKNOWN", Role.PROMPT,
      llama_cpp(CONTEXT, 'pre_decode "params.cache_prompt {"', "3f545be", note="where no shared tokens limit n_past"),
      until="b11549")
def no_decisions(prompts: Sequence[Sequence[int]]) -> Decision:
    """There are no decision tasks. Value: how many first tokens several prompts of one request are evaluated once
    for; None = the server does not know such requests."""
    return Decision(None, {"prompts": len(prompts)})


# [New in llama_cpp@b11549]
@rule("LC-SHARED.PREFIX", Role.PROMPT,
      llama_cpp("tools/server/server-decision.cpp", "server_decision_group_tasks", "b11549"), since="b11549")
def shared_prefix(prompts: Sequence[Sequence[int]]) -> Decision:
    """The common prefix of all prompts of a decision, but each keeps a token of its own: the first prompt's slot
    evaluates it, the others go on from copies. From the text only."""
    same = min((common_prefix(list(prompts[0]), list(one)) for one in prompts[1:]), default=0)
    value = min(same, *(len(one) - 1 for one in prompts))
    return Decision(value, {"same": same, "prompts": len(prompts)})


def _whole(kind: str, n_tokens: int, n_ubatch: int, splits: bool) -> Decision:
    value = "" if kind not in POOLED or splits else "whole" if n_tokens <= n_ubatch else "too large"
    return Decision(value, {"kind": kind, "n_tokens": n_tokens, "n_ubatch": n_ubatch})


@rule("LC-TASK.WHOLE", Role.PROMPT, llama_cpp(CONTEXT, 'can_split, pre_decode "can_split {"', "3f545be"))
def whole_prompt(kind: str, n_tokens: int, n_ubatch: int, pooling: str) -> Decision:
    """An embedding or a reranking is evaluated in one ubatch and from nothing, unless it is read from the last token
    (pooling "last"). Value: "" = it can be split, "whole", or "too large". From the text only."""
    return _whole(kind, n_tokens, n_ubatch, pooling == "last")


# [New in llama_cpp@b11312]
@rule("LC-TASK.WHOLE-MEAN", Role.PROMPT, llama_cpp(CONTEXT, "can_split", "b11312", pull=28876), since="b11312")
def whole_unless_last(kind: str, n_tokens: int, n_ubatch: int, pooling: str) -> Decision:
    """As WHOLE, but a causal reranker (pooling "rank") reads its last token too, and can be split. From the
    text only."""
    return _whole(kind, n_tokens, n_ubatch, pooling in ("last", "rank"))


@rule("LC-TASK-REUSE.ALL", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "params.cache_prompt"', "3f545be"), until="b11312")
def all_reuse(kind: str) -> Decision:
    """Every task that can be split goes on where its slot's tokens agree with its prompt. Value: does this one?"""
    return Decision(True, {"kind": kind})


# [New in llama_cpp@b11312]
@rule("LC-TASK-REUSE.STATEFUL", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "is_stateless_task"', "b11312"), since="b11312")
def stateless_start_anew(kind: str) -> Decision:
    """Embeddings and rerankings begin with nothing, whatever the slot holds and ``cache_prompt`` says; they overwrite
    it all the same. From the text only."""
    return Decision(kind not in POOLED, {"kind": kind})


@rule("LC-MARKS.REQUEST", Role.PROMPT,
      llama_cpp(CONTEXT, 'handle_completions_impl "message_delimiters" "message_spans"', "3f545be"), until="b11549")
def marks_of_any(chat: bool) -> Decision:
    """Where user messages begin is known from the chat template, or from ``message_delimiters`` that any completion may
    send. Value: are the marks looked at?"""
    return Decision(True, {"chat": chat})


# [New in llama_cpp@b11549]
@rule("LC-MARKS.CHAT", Role.PROMPT,
      llama_cpp(CONTEXT, "handle_completions_impl, tools/server/server-task.h apply_chat_session", "b11549",
                note="recorded: every completion with delimiters in llama_cpp_b11549"), since="b11549")
def marks_of_chats(chat: bool) -> Decision:
    """Only the chat endpoints know where user messages begin; ``message_delimiters`` of a plain completion are
    ignored."""
    return Decision(chat, {"chat": chat})


@rule("LC-NPAST-ONE", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "TAG_PROMPT_LOGITS {"', "3f545be"))
def need_one(n_past: int, n_tokens: int) -> Decision:
    """At least one token is evaluated, so that there are logits: a prompt that is held whole gives one back."""
    whole = n_past == n_tokens and n_past > 0
    return Decision(n_past - 1 if whole else n_past, {"n_past": n_past, "n_tokens": n_tokens})


@rule("LC-TRIM.ABORT", Role.FAIL,
      llama_cpp(CONTEXT, 'pre_decode "memory_seq_rm", common/common.cpp common_memory::seq_rm', "3f545be"),
      since="#22673 (b9180)")
def abort_if_refused(n_past: int) -> Decision:
    """A cut that the memory refuses ends the process. Value: is the slot cleared instead, and the prompt begun anew?"""
    return Decision(False, {"n_past": n_past})


# [Gone in llama_cpp@minus-one]
@rule("LC-TRIM.CLEAR", Role.FAIL, llama_cpp(CONTEXT, "update_slots", "ffdd983fb"), until="#22673 (b9180)")
def clear_if_refused(n_past: int) -> Decision:
    """A cut that the memory refuses empties the slot, and the prompt is evaluated from its beginning."""
    return Decision(True, {"n_past": n_past})


@rule("LC-CLEAR.BOTH", Role.DROP, llama_cpp(CONTEXT, "server_slot::prompt_clear", "3f545be"), since="#25649 (b10011)")
def clear_both(checkpoints: int) -> Decision:
    """Emptying a slot forgets its checkpoints too. Value: do they go?"""
    return Decision(True, {"checkpoints": checkpoints})


# [Gone in llama_cpp@head]
@rule("LC-CLEAR.TOKENS", Role.DROP, llama_cpp(CONTEXT, "", "7c158fbb4"), until="#25649")
def clear_tokens(checkpoints: int) -> Decision:
    """Emptying a slot keeps its checkpoints."""
    return Decision(False, {"checkpoints": checkpoints})


@rule("LC-RESTORE-FAIL.CLEAR", Role.FAIL,
      llama_cpp(CONTEXT, 'process_single_task "case SERVER_TASK_TYPE_SLOT_RESTORE {"', "3f545be"),
      since="#26640 (b10388)")
def restore_failed(cause: str) -> Decision:
    """A slot file that cannot be restored empties the slot. Value: what the client is told, and whether the memory and
    the checkpoints go besides the tokens."""
    return Decision((f"Unable to restore slot: {cause}", True), {"cause": cause})


# [Gone in llama_cpp@head]
@rule("LC-RESTORE-FAIL.TOKENS", Role.FAIL,
      llama_cpp(CONTEXT, "SERVER_TASK_TYPE_SLOT_RESTORE", "7c158fbb4"), until="#26640")
def restore_failed_tokens(cause: str) -> Decision:
    """A slot file that cannot be restored makes the slot forget its tokens only. Inferred: no recording shows it."""
    text = "Unable to restore slot, no available space in KV cache or invalid slot save file"
    return Decision((text, False), {"cause": cause})


@rule("LC-DECODE.RETRY", Role.FAIL,
      llama_cpp(CONTEXT, 'decode "try_clear_idle_slots {" "Context size has been exceeded"', "3f545be"))
def next_attempt(purged: bool, n_batch: int) -> Decision:
    """After a batch that found no room: the same size if an idle slot could be emptied, else half. Value 0 =
    give up."""
    value = n_batch if purged else n_batch // 2
    return Decision(value, {"purged": purged, "n_batch": n_batch})


def stop_word(said: str, words: Sequence[str]) -> str:
    """The first of the stop words that the generated text contains, "" = none."""
    return next((word for word in words if word and word in said), "")


@rule("LC-END", Role.END,
      llama_cpp(CONTEXT, 'process_token "ctx_shift" "has_budget" "find_stopping_strings", '
                'has_budget, find_stopping_strings',
                "3f545be"))
def end_of_generation(
    n_gen: int, n_predict: int, n_slot: int, n_ctx: int, shift: bool, said: str = "", words: Sequence[str] = (),
    eog: bool = False,
) -> Decision:
    """Does the generation end with this token? "limit" with a full context or a spent budget (a budget of 0
    still yields one token), "word" where the generated text ``said`` contains a stop word, "" = it goes on. A full
    context comes before a stop word, a stop word before the budget; "eos" after a token that ends a generation
    (``eog``), whatever else holds. The value's second half: was the answer truncated?"""
    because: dict[str, Any] = {"n_gen": n_gen, "n_predict": n_predict, "n_slot": n_slot, "n_ctx": n_ctx}
    full = not shift and n_slot + 1 >= n_ctx
    word = stop_word(said, words)
    if word:
        because |= {"word": word}
    spent = n_predict != -1 and n_gen >= max(1, n_predict)
    stop = "eos" if eog else "limit" if full else "word" if word else "limit" if spent else ""
    return Decision((stop, full), because)
