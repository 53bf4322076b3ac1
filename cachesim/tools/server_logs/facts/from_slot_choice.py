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
    more. The window is that printed with the erased checkpoints; without it, the threshold is a lower bound."""
    checks = [(line, thold) for line in request.of("ckpt_check") if (thold := line.number_of("thold"))]
    windows = [(line, size) for line in request.of("ckpt_invalidate") if (size := line.number_of("n_swa")) is not None]
    known = found.get("lcp")
    if not checks or (known is not None and known.is_exact) or may_be_moved(request, checks[0][0], grammar, sieve):
        return
    check, thold = checks[0]
    if not windows or request.start is None:
        how = f"threshold of the checkpoints in line {check.number}"
        found.add("lcp", ProvenRange(thold, None, frozenset({check.number}), how))
    elif known is None:
        window, size = windows[0]
        low, how = thold + size, f"threshold {thold:,} + window {size:,}"
        found.add("lcp", ProvenRange(low, low + 1, frozenset({check.number, window.number}), how))


def may_be_moved(request: TiedRequest, line: ReadLine, grammar: LogGrammar, sieve: LineSieve) -> bool:
    """True if chunks of the slot were moved before a server printed a line of a request, or may have been. It would
    have printed that just before."""
    is_first = request.start is None and line.number == 1
    return bool(request.of(*MOVED)) or is_first or may_hide(grammar, sieve, line.head, MOVED)


def add_choice(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar, sieve: LineSieve) -> None:
    """Derive the common prefix and the slot's contents from the lines of the slot's selection."""
    _similarity(request, found)
    loaded = request.of_cache("pc_load")
    choice = request.choice
    known = found.get("lcp")
    if choice is None:
        return
    if known is not None and known.high is not None:          # printed, or the slot was never used
        if known.high and not loaded and _is_kept(choice, grammar):
            add_shares(choice, found, grammar)
        return
    if loaded:
        failed = "pc_load_failed"
        if not request.of_cache(failed) and not may_hide(grammar, sieve, loaded[-1].head, (failed,)):
            _loaded(request, found, loaded[-1], grammar)
        return
    for line in request.similar[-1:]:
        if line.kind == "slot_skip_empty":
            for name in ("held", "lcp") if _is_nothing_loaded(request, choice, grammar, sieve) else ():
                found.add(name, ProvenRange(0, 0, frozenset({line.number, choice.number}), "the slot was empty"))
            return
        lcp = line.number_of("lcp")
        if lcp is not None:
            how = "printed with the similarity"
            found.add("lcp", ProvenRange(lcp, lcp, frozenset({line.number, choice.number}), how))
    shares = choice if choice.kind == "slot_by_lcp" else next(iter(request.of_cache("pc_search")), None)
    is_same = known is None or (shares is not None and _is_kept(shares, grammar))
    if shares is not None and is_same and "lcs" not in shares.read.line.template:    # else a common substring
        add_shares(shares, found, grammar)
    held, saved = found.get("held"), [line.number_of("n_tokens") or 0 for line in request.of_cache("pc_save")]
    if held is not None and any(n < held.low or n > (held.high or n) for n in saved):
        found.drop("lcp", "held")                             # the launch is that of another server
    elif choice.kind == "slot_by_lru":
        _saved(request, found)


def _is_nothing_loaded(request: TiedRequest, choice: ReadLine, grammar: LogGrammar, sieve: LineSieve) -> bool:
    """True if the prompt cache filled no empty slot for a request without a line about it: the request names its slot,
    the cache has no entry, or the log has the search and would have the line."""
    searches = request.of_cache("pc_search")
    would_print = any(not may_hide(grammar, sieve, line.head, ("pc_load",)) for line in searches)
    return choice.kind == "slot_by_id" or request.is_uncached or would_print


def _is_kept(shares: ReadLine, grammar: LogGrammar) -> bool:
    """True if a server that printed these shares asks no prompt cache: the prompt continues from what the slot holds,
    and not from an entry whose line the log may lack."""
    keep = share_range(shares, "f_keep")
    return keep is not None and grammar.loads_below <= keep[0]


def _saved(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive the slot's contents from the prompt that the server saved before it reused the slot."""
    for line in request.of_cache("pc_save")[-1:]:
        size = line.number_of("n_tokens")
        if size is not None:
            how = "saved to the prompt cache before the slot was reused"
            found.add("held", ProvenRange(size, size, frozenset({line.number}), how))


PARTS = (("f_sim", "n_tokens", "prompt tokens"), ("f_keep", "held", "tokens of the slot"))
"""Shares of the common prefix: the field of a line, the number of which it is the share, and its name."""


def add_shares(line: ReadLine, found: FoundNumbers, grammar: LogGrammar) -> None:
    """Derive prefix, prompt and contents of a slot from each other: ``f_sim`` is the share of the prompt that is the
    common prefix, ``f_keep`` that of the slot. Each may be known within bounds only."""
    parts = PARTS[1:] if grammar.is_sim_symmetric else PARTS
    for field, name, what in parts:
        share, whole = share_range(line, field), found.get(name)
        if share is not None and whole is not None:
            how = f"{field} = {line.read.words[field]} of {whole} {what}"
            found.add("lcp", _part_of(share, whole)._replace(lines=whole.lines | {line.number}, how=how))
    for field, name, _ in parts:
        share, lcp = share_range(line, field), found.get("lcp")
        if share is not None and lcp is not None and lcp.high != 0:
            how = f"common prefix {lcp} / {field} = {line.read.words[field]}"
            found.add(name, _whole_of(share, lcp)._replace(lines=lcp.lines | {line.number}, how=how))


def _part_of(share: tuple[float, float], whole: ProvenRange) -> ProvenRange:
    """Return the integers that are a share of a number, at most all of it."""
    high = None if whole.high is None else min(whole.high, floor(share[1] * whole.high))
    return ProvenRange(max(0, ceil(share[0] * whole.low)), high)


def _whole_of(share: tuple[float, float], part: ProvenRange) -> ProvenRange:
    """Return the integers of which a number is a share, at least that number."""
    is_open = part.high is None or share[0] <= 0
    high = None if is_open else floor((part.high or 0) / share[0])
    return ProvenRange(max(part.low, ceil(part.low / share[1])), high)


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
    is_first = request.task == 0 and bool(request.lines)
    first = frozenset({request.lines[0].number}) if is_first else frozenset()
    if is_first:
        found.add("cache_n", ProvenRange(0, 0, first, "the first task of the server"))
    is_unused = choice is not None and choice.read.numbers.get("t_last") == -1
    if choice is not None and is_unused and request.is_uncached and not request.of_cache("pc_load"):
        for name in ("held", "lcp", "cache_n"):
            found.add(name, ProvenRange(0, 0, frozenset({choice.number}), "the slot was never used"))
    if is_first:
        for name in ("held", "lcp"):
            found.add(name, ProvenRange(0, 0, first, "the first task of the server"))


def _loaded(request: TiedRequest, found: FoundNumbers, load: ReadLine, grammar: LogGrammar) -> None:
    """Derive prefix and length of the prompt cache entry that was loaded: the listed entry with the same shares."""
    entries = [line for line in request.cache if line.kind == "pc_cand" and line.number < load.number and all(
        line.read.words.get(name) == load.read.words.get(name) for name in ("f_keep", "f_sim"))]
    if len({(line.number_of("lcp"), line.number_of("n_tokens")) for line in entries}) != 1:
        if not request.of_cache("pc_cand"):                   # older builds do not list the entries
            add_shares(load, found, grammar)
        return
    for name, field in (("lcp", "lcp"), ("held", "n_tokens")):
        value = entries[-1].number_of(field)
        if value is not None:
            how = "entry of the prompt cache that was loaded"
            found.add(name, ProvenRange(value, value, frozenset({entries[-1].number, load.number}), how))
