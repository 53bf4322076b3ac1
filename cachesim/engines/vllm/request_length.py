"""Lengths of requests that the server refuses.

Source: vLLM vllm/renderers/params.py TokenizeParams.__post_init__, _token_len_check (0.29.0 to 0.33.0);
vllm/entrypoints/serve/utils/api_utils.py get_max_tokens; vllm/sampling_params.py SamplingParams._verify_args (0.33.0).
"""

from __future__ import annotations

from cachesim.engines.shared.request_queue import Refusal


def refusal(n: int, max_tokens: int, most: int, limits_sum: bool) -> Refusal | None:
    """Return the error for a prompt of ``n`` tokens in a server whose longest request has ``most``, None if it is
    accepted. ``max_tokens``: of the request, 0 = not sent; ``limits_sum``: the release refuses a prompt that leaves no
    room for them, instead of a shorter answer. The server counts one token more than it accepts, and no further."""
    if max_tokens > most:
        text = (f"max_tokens={max_tokens} cannot be greater than max_model_len={most}. "
                "Please request fewer output tokens.")  # fmt: skip
        return Refusal(text, "answer-too-long", {"max_tokens": max_tokens, "most": most})
    begin = f"This model's maximum context length is {most} tokens. However, "
    if limits_sum and n + max_tokens > most:
        counted = most - max_tokens + 1
        text = (f"you requested {max_tokens} output tokens and your prompt contains at least {counted} input tokens, "
                f"for a total of at least {most + 1} tokens.")  # fmt: skip
        return Refusal(begin + text, "prompt-too-long", {"prompt": n, "max_tokens": max_tokens, "most": most})
    if n > most:
        text = f"your prompt contains at least {most + 1} input tokens, which exceeds this limit."
        return Refusal(begin + text, "prompt-too-long", {"prompt": n, "most": most})
    if n == most:
        return Refusal("max_tokens must be at least 1, got 0.", "prompt-too-long", {"prompt": n, "most": most})
    return None
