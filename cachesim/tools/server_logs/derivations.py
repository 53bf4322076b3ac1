"""Conclusions from the numbers of a log: lengths, prefixes and counts of its requests, and facts about the server.

Only printed numbers enter. A number that is printed rounded gives a range. A conclusion that a line outside the excerpt
could make false is not drawn.
"""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple, Sequence

from cachesim.engines.shared.log_grammar import Gives, LogGrammar
from cachesim.tools.server_logs.line_ties import TiedRequest
from cachesim.tools.server_logs.proven_range import ProvenRange, printed_range
from cachesim.tools.server_logs.read_lines import ReadLine, Sieve

Numbers = dict[str, ProvenRange]


class Derived(NamedTuple):
    """Numbers of a request, and the pairs of printed numbers that cannot be met together."""

    request: TiedRequest
    numbers: Numbers
    clashes: tuple[tuple[str, ProvenRange, ProvenRange], ...] = ()


def numbers_of(request: TiedRequest, grammar: LogGrammar, sieve: Sieve) -> Derived:
    """Return the numbers of a request that follow from its lines."""
    found = _Found()
    if request.doubtful:
        return Derived(request, {})
    for gives in grammar.gives:
        for line in _lines(request, gives):
            value = 0 if not gives.fields else line.number_of(*gives.fields)
            if value and gives.spelled not in line.read.line.template and not _is_confirmed(request, value):
                continue
            if value is not None and not _may_change(request, line, gives, grammar, sieve):
                how = f"printed in line {line.number}"
                found.add(gives.name, ProvenRange(value, value + gives.plus, frozenset({line.number}), how))
    _in_cache(request, found)
    _shares_of_progress(request, found)
    _sums(request, found, grammar)
    _threshold(request, found, grammar, sieve)
    _choice(request, found, grammar, sieve)
    _restored(request, found, grammar)
    _sums(request, found, grammar)
    return Derived(request, {} if found.clashes else found.numbers, tuple(found.clashes))


class _Found:
    """Numbers found so far."""

    def __init__(self) -> None:
        self.numbers: Numbers = {}
        self.clashes: list[tuple[str, ProvenRange, ProvenRange]] = []

    def add(self, name: str, value: ProvenRange | None) -> None:
        """Add a range for a number; two ranges without a common integer clash."""
        if value is None or value.low < 0:
            return
        held = self.numbers.get(name)
        if held is None:
            self.numbers[name] = value
        elif held.meets(value):
            self.numbers[name] = held.within(value)
        else:
            self.clashes.append((name, held, value))

    def get(self, name: str) -> ProvenRange | None:
        """Return the range of a number, None if nothing is known about it."""
        return self.numbers.get(name)


def _lines(request: TiedRequest, gives: Gives) -> list[ReadLine]:
    """Return the lines of a request that give a number."""
    lines = request.of(gives.kind)
    if not gives.first:
        return lines
    early = request.start is not None or any(line.kind in BEFORE_BATCH for line in request.lines)
    return lines[:1] if early else []


BEFORE_BATCH = frozenset({"n_past", "ckpt_check", "ckpt_restore", "full_reprocess", "ckpt_invalidate"})
"""Lines that a server prints just before the first batch of a prompt."""


def _is_confirmed(request: TiedRequest, n_past: int) -> bool:
    """Return whether a line of progress shows that evaluation began after ``n_past`` tokens."""
    return any((line.number_of("n_tokens") or 0) - (line.number_of("batch") or 0) == n_past
               for line in request.of("progress"))  # fmt: skip


_MOVED = ("reuse_chunk", "reuse_result")
"""Lines about chunks of the slot that follow the common prefix after they were moved."""


def _may_change(request: TiedRequest, line: ReadLine, gives: Gives, grammar: LogGrammar, sieve: Sieve) -> bool:
    """Return whether a line in or outside the excerpt makes the number of a line false."""
    if request.of(*gives.unless, *gives.absent):
        return True
    if not gives.absent or (gives.name == "cache_n" and line.number_of(*gives.fields) == 0):
        return False                                          # fewer than 0 tokens are not reused
    after = any(held.number > line.number and held.kind not in BEFORE_BATCH for held in request.lines)
    return not after or may_hide(grammar, sieve, line.head, gives.absent)


def may_hide(grammar: LogGrammar, sieve: Sieve, head: str, kinds: Sequence[str]) -> bool:
    """Return whether the excerpt may lack lines of these kinds that the server printed with this prefix."""
    return sieve.hides(f"{head}{line.template}" for line in grammar.lines if line.ev in kinds)


def _word_range(line: ReadLine, name: str) -> tuple[float, float] | None:
    word = line.read.words.get(name) if name in line.read.numbers else None
    found = printed_range(word) if word else None
    return found if found is not None and found[1] > 0 and found[0] <= 1 else None


def _in_cache(request: TiedRequest, found: _Found) -> None:
    """Derive the counts of a prompt from its tokens in the slot and the others. At least the last is evaluated."""
    for line in request.of("in_cache"):
        n_past, rest = line.number_of("n_past"), line.number_of("prompt_n")
        if n_past is None or rest is None:
            continue
        spare, n_tokens = max(0, 1 - rest), n_past + rest
        for name, value in (("n_tokens", n_tokens), ("cache_n", n_past - spare), ("prompt_n", rest + spare)):
            how = f"{n_past:,} tokens in the slot, {rest:,} others"
            found.add(name, ProvenRange(value, value, frozenset({line.number}), how))


def _restored(request: TiedRequest, found: _Found, grammar: LogGrammar) -> None:
    """Derive the reused tokens from a restored checkpoint that ends within the prompt."""
    for gives in (gives for gives in grammar.gives if gives.inside):
        for line in _lines(request, gives):
            n_past, first, last = (line.number_of(name) for name in (*gives.fields, "pos_min", "pos_max"))
            longer = _longer(request, found, n_past or 0)
            if longer is None or first is None or last is None or request.of(*gives.unless, *gives.absent):
                continue
            if n_past is not None and (last < n_past or first < last):
                how = f"printed in line {line.number}, within a prompt of more tokens"
                found.add(gives.name, ProvenRange(n_past, n_past + gives.plus, longer | {line.number}, how))


def _longer(request: TiedRequest, found: _Found, n_past: int) -> frozenset[int] | None:
    """Return the lines that show a prompt of more than ``n_past`` tokens, None if none does."""
    for number in (found.get("n_tokens"), found.get("lcp")):
        if number is not None and number.low > n_past:
            return number.lines
    checks = (line.number for line in request.of("ckpt_check") if (line.number_of("thold") or 0) > n_past)
    return next((frozenset({number}) for number in checks), None)


def _shares_of_progress(request: TiedRequest, found: _Found) -> None:
    """Derive the length of the prompt from evaluated tokens and their share of it."""
    for line in request.of("progress"):
        share, done = _word_range(line, "share"), line.number_of("n_tokens")
        if share is None or not done or share[0] <= 0:
            continue
        low, high = max(done, ceil(done / share[1])), floor(done / share[0])
        if low <= high:
            how = f"{done:,} tokens are {line.read.words['share']} of it"
            found.add("n_tokens", ProvenRange(low, high, frozenset({line.number}), how))


def _threshold(request: TiedRequest, found: _Found, grammar: LogGrammar, sieve: Sieve) -> None:
    """Derive the common prefix from the threshold of the checkpoints: it lies a window before the prefix, or a token
    more. The window is that printed with the erased checkpoints."""
    checks = [line for line in request.of("ckpt_check") if line.number_of("thold")]
    windows = [line for line in request.of("ckpt_invalidate") if line.number_of("n_swa") is not None]
    if found.get("lcp") is not None or not checks or not windows or request.of(*_MOVED):
        return
    if request.start is None or may_hide(grammar, sieve, checks[0].head, _MOVED):
        return
    low = (checks[0].number_of("thold") or 0) + (windows[0].number_of("n_swa") or 0)
    how = f"threshold {checks[0].number_of('thold'):,} + window {windows[0].number_of('n_swa'):,}"
    found.add("lcp", ProvenRange(low, low + 1, frozenset({checks[0].number, windows[0].number}), how))


def _choice(request: TiedRequest, found: _Found, grammar: LogGrammar, sieve: Sieve) -> None:
    """Derive the common prefix and the slot's contents from the lines of the slot's selection."""
    for line in request.similar:
        length = line.number_of("n")
        if length:
            found.add("n_tokens", ProvenRange(length, length, frozenset({line.number}), "printed with the similarity"))
    loaded = request.of_cache("pc_load")
    choice = request.choice
    if found.get("lcp") is not None or choice is None:
        return
    if loaded:
        failed = "pc_load_failed"
        if not request.of_cache(failed) and not may_hide(grammar, sieve, loaded[-1].head, (failed,)):
            _loaded(request, found, loaded[-1])
        return
    for line in request.similar[-1:]:
        lcp = line.number_of("lcp")
        if lcp is not None:
            how = "printed with the similarity"
            found.add("lcp", ProvenRange(lcp, lcp, frozenset({line.number, choice.number}), how))
    if "lcs" in choice.read.line.template or choice.kind != "slot_by_lcp":
        return                                                # a common substring, or no similarity
    n_tokens, f_sim = found.get("n_tokens"), _word_range(choice, "f_sim")
    if n_tokens is not None and n_tokens.high is not None and f_sim is not None:
        low, high = max(0, ceil(f_sim[0] * n_tokens.low)), min(n_tokens.high, floor(f_sim[1] * n_tokens.high))
        if low <= high:
            how = f"f_sim = {choice.read.words['f_sim']} of {n_tokens} prompt tokens"
            found.add("lcp", ProvenRange(low, high, n_tokens.lines | {choice.number}, how))
    _held(found, choice)
    held, saved = found.get("held"), [line.number_of("n_tokens") or 0 for line in request.of_cache("pc_save")]
    if held is not None and any(n < held.low or n > (held.high or n) for n in saved):
        for name in ("lcp", "held"):                          # the launch is that of another server
            found.numbers.pop(name, None)


def _loaded(request: TiedRequest, found: _Found, load: ReadLine) -> None:
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


def _held(found: _Found, choice: ReadLine) -> None:
    """Derive the tokens in the slot from the common prefix and the share of the slot that it is."""
    lcp, keep = found.get("lcp"), _word_range(choice, "f_keep")
    if lcp is None or lcp.high is None or keep is None or keep[0] <= 0 or not lcp.high:
        return
    low, high = max(lcp.low, ceil(lcp.low / keep[1])), floor(lcp.high / keep[0])
    if low <= high:
        how = f"common prefix {lcp} / f_keep = {choice.read.words['f_keep']}"
        found.add("held", ProvenRange(low, high, lcp.lines | {choice.number}, how))


def _sums(request: TiedRequest, found: _Found, grammar: LogGrammar) -> None:
    """Derive numbers from the others: a prompt is reused or evaluated, and the slot holds prompt and answer."""
    if _same_tokens(request, found, grammar):
        _lengths(request, found, grammar.end_slack)
    lcp, held, cache_n = found.get("lcp"), found.get("held"), found.get("cache_n")
    if lcp is not None and held is not None and lcp.low > (held.high if held.high is not None else lcp.low):
        found.clashes.append(("lcp", lcp, held))
    if lcp is not None and cache_n is not None and lcp.low >= (cache_n.high or 0) and (lcp.high or 0) > cache_n.low:
        found.add("lost", lcp.less(cache_n, 0, f"common prefix {lcp} - {cache_n} reused"))


def _same_tokens(request: TiedRequest, found: _Found, grammar: LogGrammar) -> bool:
    """Return whether counts of the slot's tokens and of the prompt's can be added: nothing was reused, or all tokens
    whose texts agree, which are as many in both."""
    if not grammar.same_tokens or (kept := found.get("cache_n")) is None:
        return not grammar.same_tokens
    kind, *names = grammar.same_tokens
    return kept.high == 0 or {line.number_of(name) for line in request.of(kind) for name in names} == {kept.low}


def _lengths(request: TiedRequest, found: _Found, slack: int) -> None:
    """Derive counts of the prompt from those of the slot and the answer."""
    end, made = found.get("end"), found.get("predicted_n")
    release = request.of("release")
    whole = (bool(release) and release[-1].read.numbers.get("truncated") in (0, False) and not request.of("ctx_shift"))
    asked = found.get("prompt_n")
    whole = whole and (made is None or made.low > 0 or (asked is not None and asked.low > 0))     # not an empty prompt
    if end is not None and made is not None and whole:
        how = f"{end} tokens in the slot - {made} generated, the last of which is not in it"
        length = _lower(end.less(made, 1 if made.low else 0, how), slack)
        if length is not None and (length.high or 0) < _evaluated(request, found):
            return
        found.add("n_tokens", length)
    n_tokens, prompt_n, cache_n = found.get("n_tokens"), found.get("prompt_n"), found.get("cache_n")
    if n_tokens is None and prompt_n is not None and cache_n is not None:
        found.add("n_tokens", prompt_n.more(cache_n, 0, f"{cache_n} reused + {prompt_n} evaluated"))
        n_tokens = found.get("n_tokens")
    if n_tokens is not None and prompt_n is not None:
        found.add("cache_n", n_tokens.less(prompt_n, 0, f"{n_tokens} prompt tokens - {prompt_n} evaluated"))
        cache_n = found.get("cache_n")
    if n_tokens is not None and cache_n is not None:
        found.add("prompt_n", n_tokens.less(cache_n, 0, f"{n_tokens} prompt tokens - {cache_n} reused"))
    if n_tokens is not None and end is not None and whole and end.low > (n_tokens.high or end.low):
        how = f"{end} tokens in the slot - {n_tokens} of the prompt, and the last"
        found.add("predicted_n", _lower(end.less(n_tokens, 1, how), slack))


def _evaluated(request: TiedRequest, found: _Found) -> int:
    """Return the least length of a prompt of which so many tokens were evaluated. (A release may be that of another
    server's request, and with drafts some builds count evaluated tokens twice.)"""
    prompt_n = found.get("prompt_n")
    return max([0 if prompt_n is None else prompt_n.low, *(line.number_of("p0") or 0 for line in request.of("batch"))])


def _lower(found: ProvenRange | None, slack: int) -> ProvenRange | None:
    """Return a range that may be lower by ``slack``."""
    return found and found._replace(low=max(0, found.low - slack))
