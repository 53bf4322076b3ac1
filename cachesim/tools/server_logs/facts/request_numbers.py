"""Conclusions from the numbers of a log: lengths, prefixes and counts of its requests, and facts about the server.

Only printed numbers enter. A number that is printed rounded gives a range. A conclusion that a line outside the excerpt
could make false is not drawn.
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.shared.log_grammar import LogGrammar, PrintedNumber
from cachesim.tools.server_logs.facts.from_progress import (
    add_least_evaluated,
    add_progress,
    is_within_longer,
    shows_whole_prompt,
)
from cachesim.tools.server_logs.facts.from_slot_choice import add_choice, add_first_use, add_threshold
from cachesim.tools.server_logs.facts.proven_range import Clash, FoundNumbers, Numbers, ProvenRange, may_hide
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest


class DerivedNumbers(NamedTuple):
    """Numbers of a request, and the pairs of printed numbers that cannot be met together."""

    request: TiedRequest
    numbers: Numbers
    clashes: tuple[Clash, ...] = ()


def numbers_of(request: TiedRequest, grammar: LogGrammar, sieve: LineSieve) -> DerivedNumbers:
    """Return the numbers of a request that follow from its lines."""
    found = FoundNumbers()
    if request.is_doubtful:
        return DerivedNumbers(request, {})
    _given(request, found, grammar, sieve)
    _in_cache(request, found)
    _batches(request, found)
    _begun(request, found, grammar)
    _comparable(request, found)
    _empty_cache(request, found)
    _shifted(request, found, grammar, sieve)
    add_first_use(request, found)
    _combine(request, found, grammar)
    add_choice(request, found, grammar, sieve)
    add_threshold(request, found, grammar, sieve)
    add_choice(request, found, grammar, sieve)
    _given(request, found, grammar, sieve, without_number=True)
    _restored(request, found, grammar)
    _lowered(request, found)
    _combine(request, found, grammar)
    _lost(request, found)
    add_least_evaluated(request, found)
    return DerivedNumbers(request, {} if found.clashes else found.numbers, tuple(found.clashes))


def _given(
    request: TiedRequest, found: FoundNumbers, grammar: LogGrammar, sieve: LineSieve, without_number: bool = False
) -> None:
    """Derive the numbers that lines print, or the bounds that follow from lines which do not print the number: these
    come after everything that derives the number itself."""
    for gives in grammar.gives:
        if bool(gives.bound and not gives.fields) is not without_number:
            continue
        if gives.beside and not request.of(*gives.beside):
            continue
        for line in _lines(request, gives):
            value = 0 if not gives.fields else line.number_of(*gives.fields)
            if value and gives.spelled not in line.read.line.template and not _is_confirmed(request, value):
                continue
            if gives.cuts and gives.cuts in line.read.line.template and _may_be_cut_off(request, line, value or 0):
                continue
            if value is not None and not _may_change(request, line, gives, grammar, sieve):
                found.add(gives.name, _printed(gives, value, line))


def _printed(gives: PrintedNumber, value: int, line: ReadLine) -> ProvenRange:
    """Return what a line proves about a number of its request by printing a value."""
    used, how = frozenset({line.number}), f"printed in line {line.number}"
    if gives.bound == "least":
        how = how if gives.fields else f"follows from line {line.number}"
        return ProvenRange(value + gives.plus, None, used, how)
    if gives.bound == "most":
        return ProvenRange(0, value, used, how)
    return ProvenRange(value, value + gives.plus, used, how)


def _lines(request: TiedRequest, gives: PrintedNumber) -> list[ReadLine]:
    """Return the lines of a request that give a number."""
    lines = request.of(gives.kind)
    if not gives.first:
        return lines
    early = request.start is not None or any(line.kind in BEFORE_BATCH for line in request.lines)
    return lines[:1] if early else []


BEFORE_BATCH = frozenset({"n_past", "ckpt_check", "ckpt_restore", "full_reprocess", "ckpt_invalidate"})
"""Lines that a server prints just before the first batch of a prompt."""


def _is_confirmed(request: TiedRequest, n_past: int) -> bool:
    """True if a line of progress shows that evaluation began after ``n_past`` tokens."""
    return any((line.number_of("n_tokens") or 0) - (line.number_of("batch") or 0) == n_past
               for line in request.of("progress"))  # fmt: skip


def _may_be_cut_off(request: TiedRequest, line: ReadLine, n_tokens: int) -> bool:
    """True if a server may have cut off a prompt of ``n_tokens`` tokens, because its slot has no room for it and
    no line refuses it."""
    room = line.number_of("n_ctx_slot")
    return room is not None and n_tokens >= room and not request.of("too_long")


def _may_change(
    request: TiedRequest, line: ReadLine, gives: PrintedNumber, grammar: LogGrammar, sieve: LineSieve
) -> bool:
    """True if a line in or outside the excerpt makes the number of a line false."""
    if request.of(*gives.unless, *gives.absent):
        return True
    if not gives.absent or (gives.name == "cache_n" and line.number_of(*gives.fields) == 0):
        return False                                          # fewer than 0 tokens are not reused
    after = any(held.number > line.number and held.kind not in BEFORE_BATCH for held in request.lines)
    return not after or may_hide(grammar, sieve, line.head, gives.absent)


def _in_cache(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive the counts of a prompt from its tokens in the slot and the others. At least the last is evaluated."""
    for line in request.of("in_cache"):
        n_past, rest = line.number_of("n_past"), line.number_of("prompt_n")
        if n_past is None or rest is None:
            continue
        spare, n_tokens = max(0, 1 - rest), n_past + rest
        for name, value in (("n_tokens", n_tokens), ("cache_n", n_past - spare), ("prompt_n", rest + spare)):
            how = f"{n_past:,} tokens in the slot, {rest:,} others"
            found.add(name, ProvenRange(value, value, frozenset({line.number}), how))


def _batches(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive the counts of a prompt from its prefill batches: the first one prints the reused tokens. Some servers
    print evaluated tokens in whole pages, of which the last one may be a part."""
    lines = request.of("prefill_batch")
    counts = [line.number_of("prompt_n") or 0 for line in lines]
    if not lines:
        return
    proof = frozenset(line.number for line in lines)
    total = sum(counts)
    least = max(0, total - request.page + 1)
    how = f"printed in {'a batch' if len(lines) == 1 else f'{len(lines)} batches'}"
    if request.is_cut:
        found.add("prompt_n", ProvenRange(least, None, proof, f"{how}, the prompt may be longer"))
    else:
        pages = f", in pages of up to {request.page} tokens" if request.page > 1 else ""
        found.add("prompt_n", ProvenRange(least, total, proof, how + pages))
    if (cached := lines[0].number_of("cache_n")) is not None:
        found.add("cache_n", ProvenRange(cached, cached, frozenset({lines[0].number}), f"printed in line "
                                         f"{lines[0].number}"))  # fmt: skip


def _begun(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar) -> None:
    """Derive the least length of a prompt from the last of its batches, which has a token at least, and the least
    number of evaluated tokens from the places at which its batches begin."""
    places = [(begin, line.number) for line in request.of("batch")
              if (begin := line.number_of("n_tokens", "p0")) is not None]  # fmt: skip
    if not places or request.of("cut_off", "ctx_shift"):
        return
    (first, first_line), (last, last_line) = min(places), max(places)
    if last and _same_tokens(request, found, grammar):
        how = f"a batch begins after {last:,} tokens in line {last_line}"
        found.add("n_tokens", ProvenRange(last + 1, None, frozenset({last_line}), how))
    if first < last:
        how = f"batches begin after {first:,} and {last:,} tokens"
        found.add("prompt_n", ProvenRange(last - first, None, frozenset({first_line, last_line}), how))


def _comparable(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive the stored tokens that a prompt was compared with: a line prints the length of the shorter one."""
    for line in request.of("omlx_differs"):
        comparable, n_tokens = line.number_of("comparable"), line.number_of("n_tokens")
        if comparable is not None and n_tokens is not None:
            most = comparable if comparable < n_tokens else None
            how = f"compared in line {line.number}"
            found.add("held", ProvenRange(comparable, most, frozenset({line.number}), how))


def _empty_cache(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive that nothing is reused from a prompt cache without entries. An answer has numbers of its own."""
    for line in request.of("fetch"):
        if line.number_of("prompts") == 0 and not request.of("usage"):
            how = f"no entries in line {line.number}"
            found.add("cache_n", ProvenRange(0, 0, frozenset({line.number}), how))


def _shifted(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar, sieve: LineSieve) -> None:
    """Derive the length of a prompt whose context was shifted: discarded tokens are not in the slot at the end."""
    shifts = request.of("ctx_shift")
    end = found.get("end")
    made = found.get("predicted_n")
    if not shifts or request.of("cut_off") or end is None or made is None or made.low < 1:
        return
    gone = [number for line in shifts if (number := line.number_of("n_discard")) is not None]
    if len(gone) < len(shifts) or may_hide(grammar, sieve, shifts[0].head, ("ctx_shift",)):
        return
    total = sum(gone)
    how = f"{end} tokens in the slot + {total:,} discarded - {made} generated, the last of which is not in it"
    length = end.less(made, 1 + total, how)
    if length is not None and (length.high or 0) >= _evaluated(request, found):
        found.add("n_tokens", length._replace(lines=length.lines | {line.number for line in shifts}))


def _restored(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar) -> None:
    """Derive the reused tokens from a restored checkpoint that ends within the prompt."""
    for gives in (gives for gives in grammar.gives if gives.inside):
        for line in _lines(request, gives):
            n_past = line.number_of(*gives.fields)
            first = line.number_of("pos_min")
            last = line.number_of("pos_max")
            if n_past is None or first is None or last is None or request.of(*gives.unless, *gives.absent):
                continue
            longer = _longer(request, found, n_past)
            if longer is not None and (last < n_past or first < last):
                how = f"printed in line {line.number}, within a prompt of more tokens"
                found.add(gives.name, ProvenRange(n_past, n_past + gives.plus, longer | {line.number}, how))


def _lowered(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive the reused tokens of a prompt that the slot holds completely after a restored checkpoint: all but the last
    token. Only a memory without a recurrent state certainly removes it."""
    for restored in request.of("ckpt_restore"):
        first, last = restored.number_of("pos_min"), restored.number_of("pos_max")
        for line in request.of("need_one"):
            whole, n_past = line.number_of("n_tokens"), line.number_of("n_past")
            if first is None or last is None or not first < last or n_past is None or request.of("trim_failed"):
                continue
            kept = n_past - 1 if whole is not None else n_past        # the second line prints the lowered number
            used = frozenset({restored.number, line.number})
            found.add("cache_n", ProvenRange(kept, kept, used, "all but the last token of the prompt"))


def _longer(request: TiedRequest, found: FoundNumbers, n_past: int) -> frozenset[int] | None:
    """Return the lines that show a prompt of more than ``n_past`` tokens, None if none does."""
    for number in (found.get("n_tokens"), found.get("lcp")):
        if number is not None and number.low > n_past:
            return number.lines
    checks = (line.number for line in request.of("ckpt_check") if (line.number_of("thold") or 0) > n_past)
    counted = (line.number for line in request.of("progress") if is_within_longer(line, n_past))
    known = next((frozenset({number}) for number in (*checks, *counted)), None)
    whole = found.get("prompt_n")
    if known is None and whole is not None and whole.is_exact and whole.low not in (0, 1, n_past):
        return whole.lines                                    # else 1 token, or all n_past tokens, would be evaluated
    return known


ROUNDS = 3                   # times that numbers are derived from each other


def _combine(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar) -> None:
    """Derive numbers from the others: a prompt is reused or evaluated, and the slot holds prompt and answer."""
    for _ in range(ROUNDS):
        before = dict(found.numbers)
        add_progress(request, found)
        _total(request, found)
        _not_refused(request, found, grammar)
        if _same_tokens(request, found, grammar):
            _lengths(request, found, grammar.end_slack)
        if found.clashes or found.numbers == before:
            return


def _total(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive evaluated and generated tokens from each other: the total of the timings is their sum."""
    for line in request.of("total_time")[-1:]:
        sum_of = line.number_of("total")
        for name, rest in (("prompt_n", "predicted_n"), ("predicted_n", "prompt_n")):
            known = found.get(rest)
            if sum_of is not None and known is not None:
                total = ProvenRange(sum_of, sum_of, frozenset({line.number}))
                found.add(name, total.less(known, 0, f"{sum_of:,} tokens in all - {known}"))


def _not_refused(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar) -> None:
    """Derive that the first batch begins after the reused tokens, if at least one was reused: a refused removal, whose
    line the excerpt may lack, leaves none."""
    kept = found.get("cache_n")
    for gives in (gives for gives in grammar.gives if gives.kind == "batch" and gives.first and gives.absent):
        for line in _lines(request, gives):
            begins = line.number_of(*gives.fields)
            if kept is None or not kept.low or begins is None or gives.spelled not in line.read.line.template:
                continue
            how = f"printed in line {line.number}, and not 0"
            found.add(gives.name, ProvenRange(begins, begins, kept.lines | {line.number}, how))


def _lost(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive the tokens of the common prefix that were evaluated again: at most those that the slot held at the end.
    The last token of a prompt, which every server evaluates for its logits, is not one of them."""
    lcp = found.get("lcp")
    held = found.get("held")
    cache_n = found.get("cache_n")
    if lcp is not None and held is not None and lcp.low > (held.high if held.high is not None else lcp.low):
        found.clashes.append(("lcp", lcp, held))
    if lcp is None or cache_n is None:
        return
    end = found.get("end")
    usable = _without_last(lcp, found.get("n_tokens"))
    if request.is_cancelled and end is not None and end.high is not None:
        usable = usable.within(ProvenRange(0, end.high, end.lines)) if usable.low <= end.high else end
    is_less = usable.high is None or cache_n.low < usable.high
    if cache_n.high is not None and cache_n.high <= usable.low and is_less:
        found.add("lost", usable.less(cache_n, 0, f"common prefix {usable} - {cache_n} reused"))


def _without_last(lcp: ProvenRange, length: ProvenRange | None) -> ProvenRange:
    """Return the tokens of a common prefix without the last token of the prompt. A prompt may be as short as its
    prefix, unless its length is known to be larger."""
    shortest = lcp.low if length is None else max(lcp.low, length.low)
    longest = None if length is None or length.high is None else length.high - 1
    highs = [end for end in (lcp.high, longest) if end is not None]
    usable = lcp._replace(low=min(lcp.low, max(0, shortest - 1)), high=min(highs, default=None))
    return usable if usable == lcp or length is None else usable._replace(lines=lcp.lines | length.lines)


def _same_tokens(request: TiedRequest, found: FoundNumbers, grammar: LogGrammar) -> bool:
    """True if counts of the slot's tokens and of the prompt's can be added: nothing was reused, or all tokens
    whose texts agree, which are as many in both."""
    if not grammar.same_tokens or (kept := found.get("cache_n")) is None:
        return not grammar.same_tokens
    kind, *names = grammar.same_tokens
    return kept.high == 0 or {line.number_of(name) for line in request.of(kind) for name in names} == {kept.low}


def _lengths(request: TiedRequest, found: FoundNumbers, slack: int) -> None:
    """Derive counts of the prompt from those of the slot and the answer."""
    end, made = found.get("end"), found.get("predicted_n")
    release = request.of("release")
    whole = (bool(release) and release[-1].read.numbers.get("truncated") in (0, False) and not request.of("ctx_shift"))
    asked = found.get("prompt_n")
    whole = whole and (made is None or made.low > 0 or (asked is not None and asked.low > 0))     # not an empty prompt
    if end is not None and made is not None and whole:
        how = f"{end} tokens in the slot - {made} generated, the last of which is not in it"
        length = _lower(end.less(made, 1 if made.low else 0, how), slack)
        if length is not None and length.high is not None and length.high < _evaluated(request, found):
            return
        found.add("n_tokens", length)
    _parts(request, found)
    n_tokens = found.get("n_tokens")
    if n_tokens is not None and end is not None and whole and end.low > (n_tokens.high or end.low):
        how = f"{end} tokens in the slot - {n_tokens} of the prompt, and the last"
        found.add("predicted_n", _lower(end.less(n_tokens, 1, how), slack))


def _parts(request: TiedRequest, found: FoundNumbers) -> None:
    """Derive one of the prompt, its reused and its evaluated tokens from the two others. Of a cancelled prompt fewer
    tokens than the rest were evaluated."""
    n_tokens = found.get("n_tokens")
    prompt_n = found.get("prompt_n")
    cache_n = found.get("cache_n")
    is_open = n_tokens is None or n_tokens.high is None or bool(request.of("progress"))
    if prompt_n is not None and cache_n is not None and is_open:
        found.add("n_tokens", prompt_n.more(cache_n, 0, f"{cache_n} reused + {prompt_n} evaluated"))
    if n_tokens is not None and prompt_n is not None:
        found.add("cache_n", n_tokens.less(prompt_n, 0, f"{n_tokens} prompt tokens - {prompt_n} evaluated"))
    is_bound = cache_n is not None and cache_n.is_upper_bound
    is_whole = not _is_unfinished(request, found) and (not is_bound or bool(request.of(*_FINISHED)))
    if n_tokens is not None and cache_n is not None and is_whole:
        found.add("prompt_n", n_tokens.less(cache_n, 0, f"{n_tokens} prompt tokens - {cache_n} reused"))


_FINISHED = ("prompt_time", "eval_time", "prompt_done", "generating", "drafts")
"""Lines that a server prints after the last token of a prompt."""


def _is_unfinished(request: TiedRequest, found: FoundNumbers) -> bool:
    """True if a line shows that the client hung up before the whole prompt was evaluated, or may have."""
    if request.of(*_FINISHED) or shows_whole_prompt(request, found):
        return False
    n_tokens, end = found.get("n_tokens"), found.get("end")
    if n_tokens is None or end is None or end.high is None:
        return request.is_cancelled
    if n_tokens.high is not None and end.low >= n_tokens.high:
        return False
    return request.is_cancelled or (end.high < n_tokens.low and not request.of("ctx_shift"))


def _evaluated(request: TiedRequest, found: FoundNumbers) -> int:
    """Return the least length of a prompt of which so many tokens were evaluated. (A release may be that of another
    server's request, and with drafts some builds count evaluated tokens twice.)"""
    prompt_n = found.get("prompt_n")
    return max([0 if prompt_n is None else prompt_n.low, *(line.number_of("p0") or 0 for line in request.of("batch"))])


def _lower(found: ProvenRange | None, slack: int) -> ProvenRange | None:
    """Return a range that may be lower by ``slack``."""
    return found and found._replace(low=max(0, found.low - slack))
