"""Facts in the lines of an excerpt, one reader for each kind of line that b11549 logs.

The comparison must not depend on the importer, so the kinds of lines are written here a second time, from the source.
Each kind has its meaning in a sentence, with its place in llama.cpp (b11549, tools/server).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple, Sequence


class LineKind(NamedTuple):
    """A kind of line: its text, with the numbers named, and what the numbers mean."""

    name: str
    text: str
    meaning: str


NUMBER_IN_TEXT = re.compile(r"\{(\w+)\}")
SHARE_IN_TEXT = re.compile(r"\{(\w+):share\}")

KINDS: Sequence[LineKind] = (
    LineKind("launch", "processing task",
             "The slot starts the task (server-context.cpp launch_slot_with_task)."),
    LineKind("new_prompt", "new prompt, n_ctx_slot = {n_ctx_slot}, n_keep = {n_keep}, task.n_tokens = {prompt}",
             "prompt = task.n_tokens (server-context.cpp update_slots)."),
    LineKind("first_batch", "cached n_tokens = {kept}, memory_seq_rm [{p0}, end)",
             "Tokens in the slot before a batch; before the first batch they are the reused tokens (update_slots)."),
    LineKind("progress", "prompt processing, n_tokens = {done}, progress = {share:share}, t = {t:share} s",
             "done of evaluated tokens are done, and (reused + done) / prompt rounds to share (print_timings_pp)."),
    LineKind("prompt_time", "prompt eval time = {ms:share} ms / {evaluated} tokens (",
             "evaluated = n_prompt_processed of the whole prompt (print_timings)."),
    LineKind("eval_time", "|        eval time = {ms:share} ms / {generated} tokens (",
             "generated = n_gen of the whole answer (print_timings)."),
    LineKind("total_time", "total time = {ms:share} ms / {total} tokens",
             "total = evaluated + generated (print_timings)."),
    LineKind("release", "stop processing: n_tokens = {end}, truncated = {truncated}",
             "end = tokens in the slot; a complete answer leaves prompt + generated - 1 (server_slot::release)."),
    LineKind("sampler", "init sampler, took {ms:share} ms, tokens: text = {text}, total = {prompt}",
             "The whole prompt is in the slot: prompt = total (server_slot::init_sampler)."),
    LineKind("restored", "restored context checkpoint (pos_min = {pos_min}, pos_max = {pos_max}, "
             "n_tokens = {n_tokens}, n_past = {n_past}, size",
             "The request continues after n_past tokens (update_slots)."),
    LineKind("forced", "forcing full prompt re-processing due to lack of cache data (likely due to SWA or hybrid",
             "n_past was above 0 and becomes 0: reused = 0, and at least a token is evaluated again (update_slots)."),
    LineKind("need_one", "need to evaluate at least 1 token for each active slot (n_past = {n_past}, "
             "task.n_tokens() = {prompt})", "n_past = prompt, so reused = prompt - 1 (update_slots)."),
    LineKind("by_lcp", "selected slot by LCP similarity, f_sim_best = {f_sim:share} (> {thold:share} thold), "
             "f_keep = {f_keep:share}", "f_sim = common / prompt, f_keep = common / held (get_available_slot)."),
    LineKind("by_lru", "selected slot by LRU, t_last = ",
             "The slot was chosen without similarity (get_available_slot)."),
    LineKind("similarity", " - checking sim = {f_sim:share} ({common}/{prompt}) > {thold:share}",
             "common = tokens that this slot shares with a prompt of so many tokens (get_available_slot)."),
    LineKind("found_entry", " - found better prompt with f_keep = {f_keep:share}, f_sim = {f_sim:share}",
             "The slot now has an entry of the prompt cache (server_prompt_cache::load)."),
    LineKind("looked_for_entry", " - looking for better prompt, base f_keep = ",
             "The prompt cache was asked for an entry (server_prompt_cache::load)."),
    LineKind("cache_updated", "prompt cache update took ", "The choice of an entry is over (get_available_slot)."),
)  # fmt: skip


def _pattern(text: str) -> re.Pattern[str]:
    out = re.escape(text).replace(r"\{", "{").replace(r"\}", "}").replace(r"\ ", " ").replace(r"\:", ":")
    out = SHARE_IN_TEXT.sub(r" *(?P<\1>-?\\d+\\.\\d+)", out)
    out = NUMBER_IN_TEXT.sub(r" *(?P<\1>\\d+)(?!\\d)", out)
    return re.compile(out.replace("  *", " *"))


PATTERNS = {kind.name: _pattern(kind.text) for kind in KINDS}
WITHOUT_SLOT = ("found_entry", "looked_for_entry", "cache_updated")
IDS = re.compile(r"\bid +(\d+) \| task +(-?\d+) \| ")
CUT_SELECTION = re.compile(r"get_availabl: .*\| task -1 \| (?! - )")
"""Choice of a slot whose line was cut."""
COLOUR = re.compile(r"\x1b?\[\d+m")
"""Code of a colour, which may have lost its escape character."""


@dataclass(frozen=True, slots=True)
class KeptLine:
    """A known line of an excerpt. ``at``: index in it; ``numbers``: integers; ``shares``: decimals as printed."""

    at: int
    kind: str
    slot: int | None
    task: int | None
    numbers: dict[str, int] = field(default_factory=dict)
    shares: dict[str, str] = field(default_factory=dict)


def kept_lines(lines: Sequence[str]) -> list[KeptLine]:
    """Return the known lines of an excerpt. A line that was cut within its numbers is unknown."""
    found = (_read(at, COLOUR.sub("", line)) for at, line in enumerate(lines))
    return [line for line in found if line is not None]


def _read(at: int, line: str) -> KeptLine | None:
    ids = IDS.search(line)
    for name, pattern in PATTERNS.items():
        match = pattern.search(line)
        if match is None or (not ids and name not in WITHOUT_SLOT):
            continue
        values = match.groupdict()
        return KeptLine(
            at=at,
            kind=name,
            slot=int(ids[1]) if ids else None,
            task=int(ids[2]) if ids and int(ids[2]) >= 0 else None,
            numbers={key: int(value) for key, value in values.items() if "." not in value},
            shares={key: value for key, value in values.items() if "." in value},
        )
    if ids and CUT_SELECTION.search(line):
        return KeptLine(at, "cut_selection", int(ids[1]), None)
    return None
