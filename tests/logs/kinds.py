"""Small logs of one kind each, with drawn numbers, and the numbers of their requests."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from cachesim.model.hash_mixing import Rng

Numbers = Mapping[str, int]


class KindOfLog(NamedTuple):
    """Log of a kind: its lines, and the true numbers of each request by (slot, task)."""

    lines: list[str]
    truth: Mapping[tuple[int, int], Numbers]


def _line(task: int, function: str, text: str) -> str:
    return f"0.06.000.000 I slot {function:>12}: id  0 | task {task} | {text}"


def _progress(task: int, done: int, in_slot: int, n_tokens: int) -> str:
    share = f"{in_slot / n_tokens:.2f}"
    text = f"prompt processing, n_tokens = {done:6}, progress = {share}, t =   4.00 s / 100.00 tokens per second"
    return _line(task, "print_timing", text)


def _timings(task: int, prompt_n: int, predicted_n: int) -> list[str]:
    return [
        _line(task, "print_timing", f"prompt eval time =    9000.00 ms / {prompt_n:5} tokens (9.00 ms each)"),
        _line(task, "print_timing", f"       eval time =    1000.00 ms / {predicted_n:5} tokens (10.00 ms each)"),
    ]


def _release(task: int, end: int) -> str:
    return _line(task, "release", f"stop processing: n_tokens = {end}, truncated = 0")


def _restored(task: int, end: int) -> str:
    text = f"restored context checkpoint (pos_min = {end - 1}, pos_max = {end - 1}, n_tokens = {end}, n_past = {end}, "
    return _line(task, "operator()", text + "size = 62.813 MiB)")


def _launch(task: int) -> str:
    return _line(task, "launch_slot_", "processing task, is_child = 0")


def _drawn_prompt(rng: Rng) -> tuple[int, int]:
    """Return the length of a prompt and its reused tokens."""
    n_tokens = 600 + rng.below(60_000)
    return n_tokens, 1 + rng.below(n_tokens - 500)


def _batches(rng: Rng, evaluated: int) -> list[int]:
    """Return tokens evaluated at progress lines, fewer than ``evaluated``."""
    return sorted({1 + rng.below(evaluated - 1) for _ in range(1 + rng.below(5))})


def progress_after_restore(rng: Rng) -> KindOfLog:
    """A restored checkpoint, then progress: the request has no other lines."""
    n_tokens, kept = _drawn_prompt(rng)
    done = [count for count in _batches(rng, n_tokens - kept) if count > 1] or [2]
    lines = [_restored(9, kept), *(_progress(9, count, kept + count, n_tokens) for count in done)]
    return KindOfLog(lines, {(0, 9): {"n_tokens": n_tokens, "cache_n": kept, "prompt_n": n_tokens - kept}})


def progress_and_time(rng: Rng) -> KindOfLog:
    """Progress and timings of a prompt whose length is not printed."""
    n_tokens, kept = _drawn_prompt(rng)
    made = 2 + rng.below(300)
    lines = [_progress(9, count, kept + count, n_tokens) for count in _batches(rng, n_tokens - kept)]
    truth = {"n_tokens": n_tokens, "cache_n": kept, "prompt_n": n_tokens - kept, "predicted_n": made}
    return KindOfLog([*lines, *_timings(9, n_tokens - kept, made)], {(0, 9): truth})


def slow_request(rng: Rng) -> KindOfLog:
    """All lines that a server of default verbosity prints about a slow prompt."""
    n_tokens, kept = _drawn_prompt(rng)
    made = 2 + rng.below(300)
    lines = [_launch(9), *(_progress(9, count, kept + count, n_tokens) for count in _batches(rng, n_tokens - kept)),
             *_timings(9, n_tokens - kept, made), _release(9, n_tokens + made - 1)]  # fmt: skip
    truth = {"n_tokens": n_tokens, "cache_n": kept, "prompt_n": n_tokens - kept, "predicted_n": made,
             "end": n_tokens + made - 1}  # fmt: skip
    return KindOfLog(lines, {(0, 9): truth})


def cancelled_request(rng: Rng) -> KindOfLog:
    """A prompt whose client hung up after some batches."""
    n_tokens, kept = _drawn_prompt(rng)
    done = _batches(rng, n_tokens - kept)
    lines = [_launch(9), *(_progress(9, count, kept + count, n_tokens) for count in done),
             "0.06.000.000 W srv          stop: cancel task, id_task = 9", _release(9, kept + done[-1])]  # fmt: skip
    return KindOfLog(lines, {(0, 9): {"n_tokens": n_tokens, "cache_n": kept, "end": kept + done[-1],
                                      "prompt_n": done[-1]}})  # fmt: skip


def older_progress(rng: Rng) -> KindOfLog:
    """Progress lines of builds before b6900: the tokens in the slot, and the evaluated share of the prompt."""
    n_tokens, kept = _drawn_prompt(rng)
    lines = [_line(9, "update_slots", f"new prompt, n_ctx_slot = 65536, n_keep = 0, n_prompt_tokens = {n_tokens}")]
    for done in _batches(rng, n_tokens - kept):
        share = f"{done / n_tokens:.6f}"
        text = f"prompt processing progress, n_past = {kept + done}, n_tokens = {done}, progress = {share}"
        lines.append(_line(9, "update_slots", text))
    return KindOfLog(lines, {(0, 9): {"n_tokens": n_tokens, "cache_n": kept, "prompt_n": n_tokens - kept}})


def whole_prompt_held(rng: Rng) -> KindOfLog:
    """A prompt that the slot holds completely: n_past is lowered by one after a restored checkpoint of a window."""
    n_tokens = 600 + rng.below(3_000)
    held, last = n_tokens + 1_000 + rng.below(1_000), n_tokens + rng.below(500)
    lines = [
        _line(9, "update_slots", f"n_past = {n_tokens}, slot.prompt.tokens.size() = {held}, seq_id = 0, "
              f"pos_min = {held - 1_200}, n_swa = 1024"),
        _line(9, "update_slots", f"restored context checkpoint (pos_min = 0, pos_max = {last}, n_tokens = {last + 1}, "
              f"n_past = {n_tokens}, size = 21.500 MiB)"),
        _line(9, "update_slots", "need to evaluate at least 1 token for each active slot "
              f"(n_past = {n_tokens}, task.n_tokens() = {n_tokens})"),
        _line(9, "update_slots", f"n_past was set to {n_tokens - 1}"),
        _line(9, "update_slots", f"n_tokens = {n_tokens - 1}, memory_seq_rm [{n_tokens - 1}, end)"),
    ]  # fmt: skip
    truth = {"n_tokens": n_tokens, "cache_n": n_tokens - 1, "prompt_n": 1, "lcp": n_tokens, "held": held, "lost": 0}
    return KindOfLog(lines, {(0, 9): truth})


def similarity_with_lengths(rng: Rng) -> KindOfLog:
    """The similarity of the selected slot, with both lengths."""
    n_tokens, held = 600 + rng.below(20_000), 600 + rng.below(20_000)
    lcp = min(n_tokens, held) // 8 + rng.below(min(n_tokens, held) // 2)
    sim, keep = f"{lcp / n_tokens:.3f}", f"{lcp / held:.3f}"
    chosen = f"selected slot by LCP similarity, f_sim_best = {sim} (> 0.100 thold), f_keep = {keep}"
    lines = [
        _line(-1, "get_availabl", f" - checking sim = {sim} ({lcp}/{n_tokens}) > 0.100"),
        _line(-1, "get_availabl", chosen),
        _launch(9),
    ]
    return KindOfLog(lines, {(0, 9): {"n_tokens": n_tokens, "lcp": lcp, "held": held}})


def unused_slot(rng: Rng) -> KindOfLog:
    """The first request of a server: its slot was never used."""
    n_tokens = 600 + rng.below(20_000)
    lines = [_line(-1, "get_availabl", "selected slot by LRU, t_last = -1"), _launch(0), *_timings(0, n_tokens, 9),
             _release(0, n_tokens + 8)]  # fmt: skip
    return KindOfLog(lines, {(0, 0): {"n_tokens": n_tokens, "cache_n": 0, "prompt_n": n_tokens, "lcp": 0, "held": 0}})


KINDS: Mapping[str, Callable[[Rng], KindOfLog]] = {made.__name__: made for made in (
    progress_after_restore, progress_and_time, slow_request, cancelled_request, older_progress, whole_prompt_held,
    similarity_with_lengths, unused_slot,
)}  # fmt: skip


def contains(stated: Any, true: int) -> bool:
    """True if a stated number or range contains the true number."""
    low, high = stated if isinstance(stated, list) else (stated, stated)
    return low <= true and (high is None or true <= high)
