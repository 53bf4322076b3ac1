"""What did a rule of ik_llama.cpp's server say, in words? With the server's own names for the numbers."""

from __future__ import annotations

from typing import Any

from cachesim.counted import counted
from cachesim.engines.shared.sentences import Because, Sentences


def _slot(choice: Any, because: Because) -> str:
    if choice is None:
        return "every slot is busy"
    how = {"name": "named by the request", "lcp": f"shares {choice.f_sim:.3f} of the prompt", "lru": "used longest ago"}
    return f"slot {choice.slot}: {how[choice.by]}"


def _common(found: Any, because: Because) -> str:
    held, asked = because["held"], because["asked"]
    return f"{found.cache} of {held} tokens in the slot are {found.prompt} of {asked} of the prompt"


def _one(back: int, because: Because) -> str:
    when = "behind the search for a checkpoint" if because["searched"] else "before a checkpoint is looked for"
    return f"{counted(back, 'token')} given back {when}" if back else ""


def _need(need: Any, because: Because) -> str:
    numbers = f"pos_min {because['pos_min']}, threshold {because['thold']}, n_past {because['n_past']}"
    return f"{'checkpoint' if need.search else 'no checkpoint'} needed: {numbers}"


def _pick(value: int | None, because: Because) -> str:
    had = because["ckpts"]
    found = "no usable checkpoint" if value is None else f"restores the checkpoint that ends at {had[value]}"
    return f"{found} (candidates end at {had})"


def _resume(resume: Any, because: Because) -> str:
    return f"evaluation goes on at {resume.n_past}, token {resume.n_past_prompt} of the prompt"


def _reset(resume: Any, because: Because) -> str:
    if resume.n_past:
        return f"no checkpoint fits: evaluation goes on at {resume.n_past}, upon whatever the memory holds"
    forgets = ", and the slot's tokens are forgotten" if resume.forget_tokens else ""
    return f"no checkpoint fits: all is evaluated again{forgets}"


def _create(made: bool | None, because: Because) -> str:
    if made is None:
        return f"a checkpoint of {because['start']} tokens, or none: that depends on a number that nobody wrote"
    return f"{'a' if made else 'no'} checkpoint of {because['start']} tokens"


def _gone(value: Any, because: Because) -> str:
    if not value:
        return "no checkpoint goes"
    return f"{counted(len(value), 'checkpoint goes', 'checkpoints go')}: number {', '.join(map(str, value))}"


def _evict(value: int, because: Because) -> str:
    return f"too many checkpoints: the one that ends at {because['pos_max'][value]} goes"


def _chunk(value: Any, because: Because) -> str:
    stop, due = value
    return f"the chunk goes from {because['start']} to {stop}" + (", where a checkpoint is due" if due else "")


def _load(value: int | None, because: Because) -> str:
    what = "no entry is better than the slot" if value is None else f"entry {value} is better than the slot"
    return f"{what}: best f_keep {because['f_keep']:.3f}, sim {because['f_sim']:.3f} of {because['entries']} entries"


def _save(value: bool, because: Because) -> str:
    least = because["least_keep"]
    than = f"f_keep {because['f_keep']:.3f}, stored below {least:.3f} from {because['n_min']} tokens on"
    return f"the slot's {because['held']} tokens are {'stored' if value else 'not stored'}: {than}"


def _alloc(plan: Any, because: Because) -> str:
    return f"{plan.verdict}: {because['entries']} entries before, {len(plan.obsolete)} obsolete"


def _update(gone: Any, because: Because) -> str:
    return f"{gone} of the oldest go; {because['size']} bytes against a limit of {because['limit_size']}"


def _full(value: str, because: Because) -> str:
    then = {"": "", "shift": "it is shifted", "error": "the request fails"}[value]
    return f"the context is full: {then}" if then else ""


def _shift(plan: Any, because: Because) -> str:
    if plan is None:
        return "the context is full, and there is nothing to discard"
    return f"the context is shifted: {plan.n_keep} tokens stay, the next {plan.n_discard} go"


def _prompt_shift(plan: Any, because: Because) -> str:
    if plan is None:
        return f"the prompt of {because['asked']} tokens is too long, and there is nothing to discard"
    return f"the prompt of {because['asked']} tokens loses {plan.n_discard} behind its first {plan.n_keep}"


def _refused(refused: bool, because: Because) -> str:
    if not refused:
        return ""
    return f"the state ends at {because['tail']}: removing {because['p0']} and behind is refused"


def _failed(repair: Any, because: Because) -> str:
    if repair.reset:
        return "removal refused: everything is cleared"
    return "removal refused by the companion: the companion alone is cleared" if repair.wipe else ""


SENTENCES = Sentences({
    "IK-SLOT-SELECT": _slot,
    "IK-SHIFTED": lambda v, b: "the slot is compared with the shifted prompt" if v else "",
    "IK-PROMPT-EMPTY": lambda v, b: "an empty prompt: answered at once" if v else "",
    "IK-REUSE": lambda v, b: "" if v else "nothing is reused: cache_prompt is false",
    "IK-PREFIX": _common,
    "IK-ONE": _one,
    "IK-CKPT-NEED": _need,
    "IK-CKPT-PICK": _pick,
    "IK-CKPT-RESUME": _resume,
    "IK-CKPT-RESET": _reset,
    "IK-CKPT-ERASE": _gone,
    "IK-CKPT-EVICT": _evict,
    "IK-CKPT-ON": lambda v, b: "checkpoints are made" if v else "no checkpoints are made for this memory",
    "IK-CKPT-BREAK": _chunk,
    "IK-CKPT-FIRST": lambda v, b: "a checkpoint is due with the first sampled token" if v else "",
    "IK-CKPT-INTERVAL": lambda v, b: f"a checkpoint is due: {b['interval']} positions behind {b['last']}" if v else "",
    "IK-CKPT-CREATE": _create,
    "IK-PC-SAVE": _save,
    "IK-PC-ALLOC": _alloc,
    "IK-PC-PEEK": lambda v, b: "comparing leaves the slot and every entry without tokens" if v else "",
    "IK-PC-LOAD": _load,
    "IK-PC-HIT": lambda v, b: "the entry is moved out of the cache" if v else "the entry is copied and stays",
    "IK-PC-UPDATE": _update,
    "IK-DECODE-RETRY": lambda v, b: f"no room: next attempt with {v} tokens" if v else "no room: given up",
    "IK-END": lambda v, b: f"token {b['n_decoded']} of {b['n_predict']}: " + (v or "goes on"),
    "IK-FULL": _full,
    "IK-KEEP": lambda v, b: "" if b["asked"] is not None else f"n_keep {v}, as the slot's last request had it",
    "IK-SHIFT": _shift,
    "IK-PROMPT-SHIFT": _prompt_shift,
    "IK-SHIFT-FIND": lambda v, b: f"in the cache {v.n_keep} tokens stay, the next {v.n_discard} go",
    "IK-SEQ-RM": _refused,
    "IK-TRIM": lambda v, b: "" if v else "the companion is not cut, because the target was not",
    "IK-TRIM-FAILED": _failed,
    "IK-SLOT-SAVE": lambda v, b: "the checkpoints go to a side file" if v else "no checkpoint is saved",
    "IK-SLOT-RESTORE": lambda v, b: "the checkpoints come from the side file" if v else "no checkpoint is restored",
    "IK-SLOT-ERASE": lambda v, b: "the checkpoints go with the tokens" if v else "the checkpoints stay for now",
    "IK-SPEC-MAX": lambda v, b: f"at most {counted(v, 'token')} drafted",
    "IK-SPEC-SAVE": lambda v, b: "" if v[0] else "the round does not fit the saved states: " + (
        "drafted all the same" if v[1] else "only the sampled token is evaluated"),
    "IK-SPEC-COMMIT": lambda v, b: f"the companion takes the accepted tokens at {v[0]}",
    "IK-SPEC-PURGE": lambda v, b: "" if v is None else f"the companion gives up positions {v[0]} to {v[1] - 1}",
    "IK-WINDOW": lambda v, b: "the window is kept compacted" if v else "the window is a mask only",
})
