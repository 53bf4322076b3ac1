"""Comparison of requests and decisions read from a log with the answers and the recording.

Values that a log does not contain are None and count as unknown; values that it contains must be right.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import zip_longest

from cachesim.engines.llama_cpp.log_events import EVENTS
from cachesim.tools.server_logs.lines.line_prefixes import message
from cachesim.tools.server_logs.lines.recognise import grammars, read_message
from tests.replay.log_writer import write_start, write_steps

NUMBERS = ("id_slot", "tokens_evaluated", "cache_n", "predicted_n")
NAMES = ("slot", "n_tokens", "cache_n", "predicted_n")
MADE = {line.ev for line in EVENTS} | {"prompt_time", "eval_time", "total_time"}
"""Kinds of lines in a written log."""
NOTHING = {"chosen": "", "f_sim": None, "f_keep": None, "loaded": False, "restored": None, "full": False}
DECIDED = {"default": ("chosen", "f_sim", "f_keep", "shifts"),
           "lv4": ("chosen", "f_sim", "f_keep", "shifts", "restored", "created", "full", "loaded")}  # fmt: skip
"""Decisions in a log, by its verbosity."""


def answers(done):
    """Return (slot, prompt length, reused, generated) of every answered completion of a step."""
    out = []
    for member in done.get("steps", [done]):
        answer = member.get("response") or {}
        if answer.get("status") == 200 and "tokens_evaluated" in answer:
            for one in (answer, *answer.get("completions", ())):
                out.append(tuple({**answer, **one}[name] for name in NUMBERS))
    return out


def compare_requests(done, found):
    """Count right and unknown numbers; list errors, which are answers that fit no request of the log."""
    counts, wrong, left = Counter(), [], list(found)
    for truth in answers(done):
        fits = [one for one in left if _fits(truth, one)]
        if not fits:
            wrong.append((truth, [_numbers(one) for one in found]))
            continue
        best = max(fits, key=lambda one: sum(number is not None for number in _numbers(one)))
        left.remove(best)
        counts["requests"] += 1
        for name, number in zip(NAMES, _numbers(best), strict=True):
            counts[f"{name} {'unknown' if number is None else 'right'}"] += 1
    return counts, wrong


def _numbers(request):
    return (request.slot, None if request.guessed else request.n_tokens, request.cache_n, request.predicted_n)


def _fits(truth, request):
    return all(number in (None, true) for true, number in zip(truth, _numbers(request), strict=True))


def decisions(events):
    """Return the recorded decisions for each launch of a step, in order."""
    out, open_ = [], {}
    choice = {}
    for event in events:
        kind, slot = event["ev"], event.get("slot", 0)
        if kind in ("slot_by_id", "slot_by_lcp", "slot_by_lru"):
            choice[slot] = {"chosen": kind.removeprefix("slot_by_"), "f_sim": event.get("f_sim"),
                            "f_keep": event.get("f_keep")}  # fmt: skip
            last = slot
        elif kind == "pc_load" and choice:
            choice[last]["loaded"] = True
        elif kind == "launch":
            open_[slot] = {**NOTHING, "created": [], "shifts": [], "slot": slot, **choice.pop(slot, {})}
            out.append(open_[slot])
        elif slot in open_:
            _during(open_[slot], event)
    return out


def _during(request, event):
    kind = event["ev"]
    if kind == "ckpt_restore":
        request["restored"] = event["n_past"]
    elif kind == "full_reprocess":
        request["full"] = True
    elif kind == "ckpt_create":
        request["created"].append(event["n_tokens"])
    elif kind == "ctx_shift":
        request["shifts"].append((event["n_keep"], event["n_discard"]))


def compare_decisions(events, found, log):
    """Compare decisions of the log's requests with recorded events: counts, and errors."""
    counts, wrong = Counter(), []
    for made, one in zip_longest(decisions(events), found):
        if made is None or one is None:
            wrong.append(("requests", made, None if one is None else _numbers(one)))
            continue
        for name in ("slot", *DECIDED["lv4" if log == "lv4" else "default"]):
            counts["decisions"] += 1
            if getattr(one, name) != made[name]:
                wrong.append((name, made[name], getattr(one, name)))
    return counts, wrong


# Lines


_VARIES = re.compile(r"(?<==)\s*[\d.]+ ms|[\d.]+ ms per token|(?:[\d.]+|inf|nan) tokens per second|0x[0-9a-f]+|"
                     r"(?<=t_last = )-?\d+|(?<= )'[^']*'$")  # fmt: skip
_SIZE = re.compile(r"(?<=size = ) *[\d.]+(?= MiB\))|(?<=restore state with size )\d+")
_TASK = re.compile(r"(?<=\| task )\d+|(?<=id_task = )\d+")
_STAMP = re.compile(r"^\d+\.\d\d\.\d{3}\.\d{3} ")


def known_lines(lines):
    """Return the lines of the kinds that a written log has."""
    grammar = grammars()["llama_cpp"]
    found = ((line, read_message(grammar, message(line))) for line in lines)
    return [line for line, read in found if read is not None and read.line.ev in MADE]


def alike(lines):
    """Return lines without times, addresses and unrecorded sizes; tasks are numbered in order."""
    tasks, out = {}, []
    for line in lines:
        line = _TASK.sub(lambda task: str(tasks.setdefault(task[0], len(tasks))), _STAMP.sub("", line))
        out.append(" ".join(_SIZE.sub("#", _VARIES.sub("#", line)).split()))
    return out


def compare_lines(step, real, verbosity):
    """Count the equal lines; return them with the first differing pair."""
    ours, theirs = alike(write_steps([step], verbosity)), alike(known_lines(real))
    for number, (mine, other) in enumerate(zip_longest(ours, theirs)):
        if mine != other:
            return number, (mine, other)
    return len(ours), None


def compare_start(recording, real, verbosity):
    """Count the startup lines that a real log has too; return them with the first missing line."""
    theirs = set(alike(real))
    for number, mine in enumerate(alike(write_start(recording, verbosity))):
        if mine not in theirs:
            return number, (mine, None)
    return number + 1, None
