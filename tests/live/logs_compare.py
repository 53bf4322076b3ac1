"""Does a log say what the server did? Requests and decisions read from it, beside the answers and the recording.

What a log does not say is None and counts as not known; what it says must be right.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import zip_longest

from cachesim.engines.llama_cpp.log_events import EVENTS
from cachesim.tools.server_logs.line_prefixes import message
from cachesim.tools.server_logs.recognise import grammars, read_message
from tests.replay.log_writer import write_start, write_steps

NUMBERS = ("id_slot", "tokens_evaluated", "cache_n", "predicted_n")
NAMES = ("slot", "n_tokens", "cache_n", "predicted_n")
MADE = {line.ev for line in EVENTS} | {"prompt_time", "eval_time", "total_time"}
"""Kinds of lines that a written log has."""
NOTHING = {"chosen": "", "f_sim": None, "f_keep": None, "loaded": False, "restored": None, "full": False}
DECIDED = {"default": ("chosen", "f_sim", "f_keep", "shifts"),
           "lv4": ("chosen", "f_sim", "f_keep", "shifts", "restored", "created", "full", "loaded")}  # fmt: skip
"""What a log says of decisions, by its verbosity."""


def answers(done):
    """(slot, prompt length, reused, generated) of every completion that a step answered."""
    out = []
    for member in done.get("steps", [done]):
        answer = member.get("response") or {}
        if answer.get("status") == 200 and "tokens_evaluated" in answer:
            for one in (answer, *answer.get("completions", ())):
                out.append(tuple({**answer, **one}[name] for name in NUMBERS))
    return out


def compare_requests(done, found):
    """Counts of numbers that are right and not known, and what is wrong: answers that no request of the log fits."""
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


def _numbers(one):
    return (one.slot, None if one.guessed else one.n_tokens, one.cache_n, one.predicted_n)


def _fits(truth, one):
    return all(number in (None, true) for true, number in zip(truth, _numbers(one), strict=True))


def decisions(events):
    """What a recording says of each launch of a step, in order."""
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


def _during(one, event):
    kind = event["ev"]
    if kind == "ckpt_restore":
        one["restored"] = event["n_past"]
    elif kind == "full_reprocess":
        one["full"] = True
    elif kind == "ckpt_create":
        one["created"].append(event["n_tokens"])
    elif kind == "ctx_shift":
        one["shifts"].append((event["n_keep"], event["n_discard"]))


def compare_decisions(events, found, log):
    """The same of the log's requests: counts, and what is wrong."""
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
    """The lines of kinds that a written log has."""
    grammar = grammars()["llama_cpp"]
    found = ((line, read_message(grammar, message(line))) for line in lines)
    return [line for line, read in found if read is not None and read.line.ev in MADE]


def alike(lines):
    """Lines without times, addresses and sizes that a recording does not hold; tasks by their order."""
    tasks, out = {}, []
    for line in lines:
        line = _TASK.sub(lambda task: str(tasks.setdefault(task[0], len(tasks))), _STAMP.sub("", line))
        out.append(" ".join(_SIZE.sub("#", _VARIES.sub("#", line)).split()))
    return out


def compare_lines(step, real, verbosity):
    """How many lines are the same, and the first pair that is not."""
    ours, theirs = alike(write_steps([step], verbosity)), alike(known_lines(real))
    for number, (mine, other) in enumerate(zip_longest(ours, theirs)):
        if mine != other:
            return number, (mine, other)
    return len(ours), None


def compare_start(recording, real, verbosity):
    """How many lines of the start a real log has as well, and the first that it does not have."""
    theirs = set(alike(real))
    for number, mine in enumerate(alike(write_start(recording, verbosity))):
        if mine not in theirs:
            return number, (mine, None)
    return number + 1, None
