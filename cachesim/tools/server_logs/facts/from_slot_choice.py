"""Numbers of a request that follow from the selection of its slot and from its search for a checkpoint."""

from __future__ import annotations

from math import ceil, floor

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.tools.server_logs.facts.proven_range import FoundNumbers, ProvenRange, may_hide, share_range
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

MOVED = ("reuse_chunk", "reuse_result")
"""Lines about chunks of the slot that follow the common prefix after they were moved."""


def add_threshold(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar, sieve: LineSieve) -> None:
    """Derive the common prefix from the threshold of the checkpoints: it lies a window before the prefix, or a token
    more. The window is that printed with the erased checkpoints."""
    checks = [(line, thold) for line in request.of("ckpt_check") if (thold := line.number_of("thold"))]
    windows = [(line, size) for line in request.of("ckpt_invalidate") if (size := line.number_of("n_swa")) is not None]
    if found.get("lcp") is not None or not checks or not windows or request.of(*MOVED):
        return
    (check, thold), (window, size) = checks[0], windows[0]
    if request.start is None or may_hide(grammar, sieve, check.head, MOVED):
        return
    low, how = thold + size, f"threshold {thold:,} + window {size:,}"
    found.add("lcp", ProvenRange(low, low + 1, frozenset({check.number, window.number}), how))


def add_choice(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar, sieve: LineSieve) -> None:
    """Derive the common prefix and the slot's contents from the lines of the slot's selection."""
    _similarity(request, found)
    loaded = request.of_cache("pc_load")
    choice = request.choice
    if found.get("lcp") is not None or choice is None:
        return                                                # printed, or the slot was never used
    if loaded:
        failed = "pc_load_failed"
        if not request.of_cache(failed) and not may_hide(grammar, sieve, loaded[-1].head, (failed,)):
            _loaded(request, found, loaded[-1])
        return
    for line in request.similar[-1:]:
        if line.kind == "slot_skip_empty":
            for name in ("held", "lcp"):
                found.add(name, ProvenRange(0, 0, frozenset({line.number, choice.number}), "the slot was empty"))
            return
        lcp = line.number_of("lcp")
        if lcp is not None:
            how = "printed with the similarity"
            found.add("lcp", ProvenRange(lcp, lcp, frozenset({line.number, choice.number}), how))
            _saved(request, found)
    if "lcs" in choice.read.line.template or choice.kind != "slot_by_lcp":
        return                                                # a common substring, or no similarity
    n_tokens, f_sim = found.get("n_tokens"), share_range(choice, "f_sim")
    if n_tokens is not None and n_tokens.high is not None and f_sim is not None:
        low, high = max(0, ceil(f_sim[0] * n_tokens.low)), min(n_tokens.high, floor(f_sim[1] * n_tokens.high))
        if low <= high:
            how = f"f_sim = {choice.read.words['f_sim']} of {n_tokens} prompt tokens"
            found.add("lcp", ProvenRange(low, high, n_tokens.lines | {choice.number}, how))
    _held(found, choice)
    held, saved = found.get("held"), [line.number_of("n_tokens") or 0 for line in request.of_cache("pc_save")]
    if held is not None and any(n < held.low or n > (held.high or n) for n in saved):
        found.drop("lcp", "held")                             # the launch is that of another server


def _saved(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive the slot's contents from the prompt that the server saved before it reused the slot."""
    for line in request.of_cache("pc_save")[-1:]:
        size = line.number_of("n_tokens")
        if size is not None and request.choice is not None and request.choice.kind == "slot_by_lru":
            how = "saved to the prompt cache before the slot was reused"
            found.add("held", ProvenRange(size, size, frozenset({line.number}), how))


def _similarity(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive the length of the prompt from the similarities of slots with it."""
    for line in request.similar:
        length = line.number_of("n")
        if length:
            found.add("n_tokens", ProvenRange(length, length, frozenset({line.number}), "printed with the similarity"))


def add_first_use(request: TiedRequest, found: FoundNumbers) -> None:
    """Add that nothing was in a slot that was never used, if the prompt cache has no entry either. The first task of a
    server finds nothing."""
    choice = request.choice
    named = request.of("launch", "prompt_time")
    if request.task == 0 and named:
        found.add("cache_n", ProvenRange(0, 0, frozenset({named[0].number}), "the first task of the server"))
    unused = choice is not None and choice.read.numbers.get("t_last") == -1
    if choice is None or not unused or not request.is_uncached or request.of_cache("pc_load"):
        return
    for name in ("held", "lcp", "cache_n"):
        found.add(name, ProvenRange(0, 0, frozenset({choice.number}), "the slot was never used"))


def _loaded(request: TiedRequest, found: FoundNumbers, load: ReadLine) -> None:
    """Derive prefix and length of the prompt cache entry that was loaded: the listed entry with the same shares."""
    entries = [line for line in request.cache if line.kind == "pc_cand" and line.number < load.number and all(
        line.read.words.get(name) == load.read.words.get(name) for name in ("f_keep", "f_sim"))]
    if len({(line.number_of("lcp"), line.number_of("n_tokens")) for line in entries}) != 1:
        return
    for name, field in (("lcp", "lcp"), ("held", "n_tokens")):
        value = entries[-1].number_of(field)
        if value is not None:
            how = "entry of the prompt cache that was loaded"
            found.add(name, ProvenRange(value, value, frozenset({entries[-1].number, load.number}), how))


def _held(found: FoundNumbers, choice: ReadLine) -> None:
    """Derive the tokens in the slot from the common prefix and the share of the slot that it is."""
    lcp, keep = found.get("lcp"), share_range(choice, "f_keep")
    if lcp is None or lcp.high is None or keep is None or keep[0] <= 0 or not lcp.high:
        return
    low, high = max(lcp.low, ceil(lcp.low / keep[1])), floor(lcp.high / keep[0])
    if low <= high:
        how = f"common prefix {lcp} / f_keep = {choice.read.words['f_keep']}"
        found.add("held", ProvenRange(low, high, lcp.lines | {choice.number}, how))
