"""Lengths of requests that the server refuses.

Source: SGLang python/sglang/srt/managers/tokenizer_manager.py TokenizerManager._validate_one_request, 1307 (0.5.23);
managers/utils.py validate_input_length, 259, compute_num_reserved_tokens, 484 (0.5.23).
"""

from __future__ import annotations

from cachesim.engines.shared.request_queue import Refusal


def tokenizer_refusal(n: int, max_tokens: int, context: int, fills_context: bool) -> Refusal | None:
    """Return the error of the tokenizer for a prompt of ``n`` tokens, with those reserved for a draft, in a server with
    a context of ``context`` tokens; None if it is accepted. ``max_tokens``: of the request, 0 = not sent;
    ``fills_context``: the release accepts a sum as long as the context."""
    if n >= context:
        text = f"The input ({n} tokens) is longer than the model's context length ({context} tokens)."
        return Refusal(text, "prompt-too-long", {"prompt": n, "most": context})
    total = n + max_tokens
    if max_tokens and (total > context or (total == context and not fills_context)):
        text = (f"Requested token count exceeds the model's maximum context length of {context} tokens. You requested "
                f"a total of {total} tokens: {n} tokens from the input messages and {max_tokens} tokens for the "
                "completion.")  # fmt: skip
        return Refusal(text, "answer-too-long", {"prompt": n, "max_tokens": max_tokens, "most": context})
    return None


def scheduler_refusal(n: int, most: int) -> Refusal | None:
    """Return the error of the scheduler for a prompt of ``n`` tokens that is not shorter than ``most``, None if it is
    accepted."""
    if n < most:
        return None
    text = (f"Input length ({n} tokens) exceeds the maximum allowed length ({most} tokens). Use a shorter input or "
            "enable --allow-auto-truncate.")  # fmt: skip
    return Refusal(text, "prompt-too-long", {"prompt": n, "most": most})
