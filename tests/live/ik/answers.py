"""Conversion of ik_llama.cpp's answers, tasks and cold runs into the format of a recording."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from cachesim.engines.shared.vocab import PIECES
from tests.live.ik.log import LAUNCHED, TOKEN

GREEDY_N = 4
SLOT = ("n_saved", "n_written", "n_restored", "n_read", "n_erased")
ERROR = ("code", "message", "type")
STOPS = ("eos", "word", "limit")
APART = 99.0                # distance of an answer without probabilities from an answer with some


@dataclass
class Task:
    """A task in the log. ``text``: its prompt, None if it was never processed; ``end``: tokens in its slot at its
    release."""

    slot: int
    text: str | None = None
    n_prompt: int | None = None
    end: int | None = None
    tokens: list = field(default_factory=list)
    error: str = ""


def read_tasks(said):
    """Return the tasks that were launched, by number."""
    found = {}
    for entry in said:
        if entry.level not in ("VERB", "INFO", "ERR"):
            continue
        if entry.text == LAUNCHED:
            fields = entry.fields
            found[fields["id_task"]] = Task(fields["id_slot"])
        elif entry.text in ("prompt tokenized", TOKEN, "slot released", "task error"):
            fields = entry.fields
            task = found.get(fields["id_task"])
            if task is not None:
                _read(task, entry.text, fields)
    return found


def _read(task, text, fields):
    if text == "prompt tokenized":
        task.text, task.n_prompt = fields["prompt_tokens"].replace(" ", ""), fields["n_prompt_tokens"]
    elif text == TOKEN:
        task.tokens.append(fields["token"])
    elif text == "slot released":
        task.end = fields["n_cache_tokens"]
    else:
        task.error = fields["error"]


def text_of(tokens):
    """Return the text of tokens without spaces, some of which the server omits."""
    return "".join(PIECES[token] for token in tokens).replace(" ", "")


def find_tasks(members, bodies, tasks):
    """Return the number of each member's task or None. ``bodies``: the answers, None without an
    answer."""
    free, found = sorted(tasks), [None] * len(members)
    for answered in (True, False):                 # members with a known answer choose first
        for place, (member, body) in enumerate(zip(members, bodies, strict=True)):
            if (body is not None) == answered and "prompt" in member["request"]:
                fits = [one for one in free if _fits(member["request"], body, tasks[one])]
                number = min(fits, key=lambda one: (_odd(body, tasks[one]), one), default=None)
                found[place] = number
                free = [one for one in free if one != number]
    return found


def _fits(request, body, task):
    if (task.n_prompt, task.text) != (len(request["prompt"]), text_of(request["prompt"])):
        return False
    if body is None:
        return request.get("id_slot", -1) in (-1, task.slot)
    said = (task.slot, len(task.tokens)) == (body["id_slot"], len(body.get("completion_probabilities") or task.tokens))
    return said and not task.error


def _odd(body, task):
    """True if a task that fits ended with another number of tokens in its slot than the answer reports."""
    return body is not None and body["tokens_cached"] != task.end


def read_answer(body, task):
    """Convert a completion."""
    timings, total = body["timings"], body["tokens_evaluated"]
    evaluated = min(timings["prompt_n"], total)         # for an empty prompt: the number of the request before
    out = {
        "status": 200, "id_slot": body["id_slot"], "cache_n": total - evaluated,
        "prompt_n": evaluated, "predicted_n": timings["predicted_n"],
        "tokens_evaluated": total, "tokens_cached": body["tokens_cached"],
        "truncated": body["truncated"],
        "stop_type": next((name for name in STOPS if body[f"stopped_{name}"]), "none"),
        "tokens": list(task.tokens) if task is not None else [],
    }  # fmt: skip
    return {**out, **{name: timings[name] for name in ("draft_n", "draft_n_accepted") if name in timings}}


def read_error(reply):
    """Convert a refusal."""
    error = (reply.body or {}).get("error", reply.body or {})
    return {"status": reply.status, "error": {name: error[name] for name in ERROR if name in error}}


def read_slot(reply):
    """Convert the response of a slot action; status 0: it was done without an answer."""
    if reply.status not in (0, 200):
        return read_error(reply)
    return {"status": reply.status, **{name: reply.body[name] for name in SLOT if name in (reply.body or {})}}


def hung_up(seen, request, task):
    """Return the response of a request whose client disconnected after some tokens."""
    out = {"cancelled": True, "tokens": task.tokens[: len(seen)]}
    if task.end is not None and task.end >= len(request["prompt"]):
        out["tokens_in_slot"] = task.tokens[: task.end - len(request["prompt"])]
    return out


# The cold run


def cold_tokens(body):
    """Return the tokens of a cold answer from their texts, which are unique except for tokens of the chat template."""
    return [PIECES.index(one["content"]) for one in body.get("completion_probabilities") or ()]


def probabilities(body):
    """Return the likeliest texts and log-probabilities per token, None if they are not numbers."""
    out = []
    for place in body.get("completion_probabilities") or ():
        found = {one["tok_str"]: one["prob"] for one in place["probs"]}
        bad = any(prob is None or math.isnan(prob) for prob in found.values())
        out.append(None if bad else {text: math.log(prob) for text, prob in found.items() if prob > 0})
    return out


def compare(tokens, body, cold):
    """Return the comparison in the format of a recording; with drafts only delivered tokens are compared."""
    theirs = cold_tokens(cold)[: len(tokens)]
    out = {"equal": tokens == theirs}
    upto = len(tokens)
    if not out["equal"]:
        short = min(len(tokens), len(theirs))
        upto = out["first_diff"] = next((i for i in range(short) if tokens[i] != theirs[i]), short)
    hot, cool = probabilities(body), probabilities(cold)
    places = list(zip(hot[: upto + 1], cool[: upto + 1], strict=False))
    if any(a is None for a, _ in places):
        out["nan"], gaps = True, [APART]
    else:
        gaps = [abs(a[text] - b[text]) for a, b in places if b is not None for text in a.keys() & b.keys()]
    if gaps:
        out["max_dlogprob"] = float(f"{max(gaps):.3g}")
    if not out["equal"]:
        best = sorted(cool[upto].values(), reverse=True) if upto < len(cool) else []
        if len(best) > 1:
            out["cold_margin"] = float(f"{best[0] - best[1]:.3g}")
        out["tokens"] = theirs
    return out


def is_tie(found, rounding):
    """True if two tokens were equally likely within rounding, which alone explains the different answers."""
    small = found.get("max_dlogprob", APART) <= rounding
    return not found["equal"] and small and found.get("cold_margin", APART) <= 2 * rounding
