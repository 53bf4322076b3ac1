"""Verdicts on log lines: what the numbers of a line amount to, such as whether a printed threshold is met.

A verdict is a function from the numbers of a line to a sentence without a final dot; "" = the numbers are missing. It
states only what holds in every recorded build.
"""

from __future__ import annotations

from typing import Callable, Mapping

from cachesim.engines.shared.log_grammar import Number

Numbers = Mapping[str, Number | str]
Verdict = Callable[[Numbers], str]


def numbers_of(numbers: Numbers, *names: str) -> tuple[float, ...] | None:
    """Return the values of these names, None if one of them is missing or not a number."""
    found = [numbers.get(name) for name in names]
    if any(isinstance(value, str | bool | None) for value in found):
        return None
    return tuple(value for value in found if isinstance(value, int | float))


def similarity(numbers: Numbers) -> str:
    """Compare the similarity of a slot with the threshold, and state the share of its tokens that is kept."""
    parts = []
    if (pair := numbers_of(numbers, "f_sim", "thold")) is not None:
        f_sim, thold = pair
        parts.append(f"f_sim = {f_sim:g} is {'' if f_sim > thold else 'not '}above the threshold {thold:g}")
    if (kept := numbers_of(numbers, "f_keep")) is not None and 0 <= kept[0] < 1:
        parts.append(f"f_keep = {kept[0]:g}: about {100 - 100 * kept[0]:.0f} % of the slot's tokens are not kept")
    elif kept is not None and kept[0] == 1:
        parts.append(f"f_keep = {kept[0]:g}: the prompt begins with the slot's tokens, within rounding")
    return "; ".join(parts)


def is_extension(numbers: Numbers) -> bool:
    """True if the prompt begins with all tokens of its slot, within rounding."""
    return numbers_of(numbers, "f_keep") == (1,)


def loaded_entry(numbers: Numbers) -> str:
    """State the share of a loaded entry that the prompt does not reuse."""
    kept = numbers_of(numbers, "f_keep")
    if kept is None or not 0 <= kept[0] < 1:
        return ""
    return f"f_keep = {kept[0]:g}: about {100 - 100 * kept[0]:.0f} % of the entry's tokens are not reused"


def cache_fill(numbers: Numbers) -> str:
    """Compare the size of the prompt cache with its limit."""
    pair = numbers_of(numbers, "mib", "limit_mib")
    if pair is None or pair[1] <= 0:
        return ""
    mib, limit = pair
    rest = f"{limit - mib:,.0f} MiB are free" if mib <= limit else f"{mib - limit:,.0f} MiB over the limit"
    return f"{mib:,.0f} of {limit:,.0f} MiB in use, {100 * mib / limit:.0f} %: {rest}"


def too_big(numbers: Numbers) -> str:
    """Compare the size of an entry with the limit of the prompt cache."""
    pair = numbers_of(numbers, "mib", "limit_mib")
    return "" if pair is None else f"{pair[0]:,.0f} MiB do not fit into {pair[1]:,.0f} MiB"


def checkpoint_count(numbers: Numbers) -> str:
    """Compare the number of checkpoints with its maximum."""
    pair = numbers_of(numbers, "n", "max")
    if pair is None or pair[0] > pair[1]:
        return ""
    left = int(pair[1] - pair[0])
    return f"{left} more fit before an old checkpoint is erased" if left else "the next checkpoint replaces an old one"


def prompt_fits(numbers: Numbers) -> str:
    """Compare the length of a prompt with the context of its slot."""
    pair = numbers_of(numbers, "n_tokens", "n_ctx_slot")
    if pair is None:
        return ""
    n_tokens, n_ctx = pair
    left = f"fits into the slot's {n_ctx:,} tokens, {n_ctx - n_tokens:,} are left for the answer"
    return f"the prompt of {n_tokens:,} tokens " + (left if n_tokens < n_ctx else f"does not fit into {n_ctx:,} tokens")


def reused(numbers: Numbers) -> str:
    """State the reused share of a prompt."""
    cached = numbers_of(numbers, "cache_n")
    whole = numbers_of(numbers, "n_tokens")
    rest = numbers_of(numbers, "prompt_n")
    if cached is None or (whole is None and rest is None):
        return ""
    total = whole[0] if whole is not None else cached[0] + (rest[0] if rest else 0)
    share = f", {100 * cached[0] / total:.0f} %" if total else ""
    return f"{cached[0]:,} of {total:,} prompt tokens reused{share}; {total - cached[0]:,} are evaluated"


def admitted(numbers: Numbers) -> str:
    """State what a prefill step evaluates beside cached tokens. A step without them may continue a prompt."""
    pair = numbers_of(numbers, "cache_n", "prompt_n")
    if pair is None or not pair[0]:
        return ""
    return f"{pair[0]:,} tokens of the admitted prompts were cached, {pair[1]:,} are evaluated in this step"


def prefix_in_memory(numbers: Numbers) -> str:
    """Compare the first position in the memory with the end of the common prefix."""
    found = numbers_of(numbers, "n_past", "pos_min", "held")
    if found is None or found[1] < 0 or not 0 < found[0] <= found[2]:
        return ""
    n_past, pos_min, held = found
    if pos_min > n_past and n_past < held:
        return (f"pos_min = {pos_min:,} is after n_past = {n_past:,}: the memory no longer has the end of the common "
                "prefix, a checkpoint must be restored")  # fmt: skip
    window = numbers_of(numbers, "n_swa")
    if window is not None and pos_min < max(0, n_past - window[0] - 1):
        return (f"pos_min = {pos_min:,} is before n_past - n_swa = {n_past - window[0]:,}: the memory still has "
                "the end of the common prefix, no checkpoint is needed")  # fmt: skip
    return ""


def restored(numbers: Numbers) -> str:
    """Compare the position of a restart with the end of its checkpoint, and with the common prefix if it is printed."""
    found = numbers_of(numbers, "n_past", "n_tokens")
    if found is None:
        return ""
    n_past, n_tokens = found
    says = f"n_past = {n_past:,} is the end of the checkpoint" if n_past == n_tokens else \
        f"n_past = {n_past:,}, the checkpoint has {n_tokens:,} tokens"
    end = numbers_of(numbers, "prefix_end")
    if end is not None and end[0] > n_past:
        says += f"; {end[0] - n_past:,} tokens of the common prefix ({end[0]:,}) are evaluated again"
    return f"{says}; all later tokens are evaluated"


def erased(numbers: Numbers) -> str:
    """Compare the end of an erased checkpoint with the position of the restart."""
    pair = numbers_of(numbers, "pos_max", "pos_next")
    return f"pos_max = {pair[0]:,} is after pos_next = {pair[1]:,}" if pair is not None and pair[0] > pair[1] else ""


VERDICTS: Mapping[str, Verdict] = {
    "slot_by_lcp": similarity, "slot_sim": similarity, "pc_state": cache_fill, "pc_too_big": too_big,
    "ckpt_create": checkpoint_count, "new_prompt": prompt_fits, "reused": reused, "usage": reused,
    "n_past": prefix_in_memory, "ckpt_restore": restored, "ckpt_invalidate": erased,
}  # fmt: skip
"""Verdicts by kind of line, the same for all engines."""

HARMLESS: Mapping[str, Callable[[Numbers], bool]] = {"slot_by_lcp": is_extension}
"""Predicates by kind of line: its numbers show that nothing is lost."""
