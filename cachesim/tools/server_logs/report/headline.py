"""Headline of the report on a log: the result in one sentence, from what the log shows alone."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.escaping import printable_line
from cachesim.tools.server_logs.facts.statements import TOTAL
from cachesim.tools.server_logs.report.shown_requests import Said, ShownRequest, shown_requests, span_of

SOME = 1, None               # lost tokens whose number the log does not limit
WORTH = 100                  # less than 1/WORTH of the prompts may be lost: the headline does not name the limit


def headline(statements: Sequence[Said]) -> Text:
    """Return the result in a sentence, from what the log shows alone."""
    requests = shown_requests(statements)
    spans = [span_of(one.numbers["lost"]) for one in requests if "lost" in one.numbers]
    lost = [span for span in spans if span[0] > 0]
    counts = [(one.numbers["prompt_n"], one.numbers["n_tokens"]) for one in requests
              if all(isinstance(one.numbers.get(name), int) for name in ("prompt_n", "n_tokens"))]  # fmt: skip
    evaluated, tokens = sum(pair[0] for pair in counts), sum(pair[1] for pair in counts)
    share = f"{100 * evaluated / max(1, tokens):.0f} % of {tokens:,} prompt tokens evaluated"
    share = f" ({share} in {counted(len(counts), 'request')} with known lengths)" if counts else ""
    if lost:
        exact = all(low == high for low, high in lost)
        total = sum(low for low, _ in lost)
        again = f"{'' if exact else 'at least '}{total:,} token{'s' * (total != 1)} of a common prefix again"
        if all(span == SOME for span in lost):
            again = "tokens of a common prefix again, the log does not show how many"
        return Text(f"{counted(len(lost), 'request')} evaluated {again}{share}.", "bold red")
    most = most_lost_of(requests)
    if most == 0:
        return Text(f"No tokens of a common prefix were evaluated again{share}.", "bold green")
    if most is not None and most * WORTH < sum(map(_least_prompt, requests)):
        return Text(f"The log shows no token of a common prefix that was evaluated again{share}.", "bold green")
    totals = [printable_line(said["says"]) for said in statements if said["what"] == TOTAL]
    if not requests or (totals and not any("lcp" in one.numbers or one.is_named for one in requests)):
        first = next(iter(totals), "the log shows no lengths of a request")
        return Text(f"{first[0].upper()}{first[1:]}.", "bold yellow")
    return Text(f"The log does not show whether tokens of a common prefix were evaluated again{share}.", "bold yellow")


def _least_prompt(request: ShownRequest) -> int:
    """Return the least length of a prompt: as the log bounds it, or as its tokens in a batch or in the slot show it."""
    return max((span_of(request.numbers[name])[0] for name in ("n_tokens", "lcp", "prompt_n", "cache_n")
                if name in request.numbers), default=0)  # fmt: skip


def most_lost_of(requests: Sequence[ShownRequest]) -> int | None:
    """Return the most tokens of common prefixes that these requests can have evaluated again, None if the log sets no
    limit or shows no request."""
    most = [most_again(one.numbers) for one in requests]
    return sum(again for again in most if again is not None) if most and None not in most else None


def most_again(numbers: Mapping[str, Any]) -> int | None:
    """Return the most tokens of the common prefix that a request can have evaluated again, None if the log sets no
    limit. ``numbers``: those of the request, as in ``import --json``. Every request evaluates the last token of its
    prompt, which is not one of them."""
    evaluated = span_of(numbers["prompt_n"])[1] if "prompt_n" in numbers else None
    limits = [] if evaluated is None else [evaluated - 1]
    if "lcp" in numbers and "cache_n" in numbers:
        common, reused = span_of(numbers["lcp"])[1], span_of(numbers["cache_n"])[0]
        prompt = span_of(numbers["n_tokens"])[1] if "n_tokens" in numbers else None
        ends = [end for end in (common, None if prompt is None else prompt - 1) if end is not None]
        limits += [min(ends) - reused] if common is not None else []
    return max(0, min(limits)) if limits else None
