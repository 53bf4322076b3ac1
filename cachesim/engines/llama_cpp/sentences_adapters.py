"""Sentences for rules about adapters, and for prompts with tokens that the model does not have."""

from __future__ import annotations

from cachesim.base.errors import counted
from cachesim.engines.shared.sentences import NoEffect, Say


def _scales(scales: tuple[float, ...]) -> str:
    return ", ".join(f"{i}:{scale:g}" for i, scale in enumerate(scales)) or "never used"


ADAPTERS: dict[str, Say] = {
    "LC-ALORA-READ": lambda v, b: NoEffect("the file names invocation tokens" if v else "a plain adapter") if (
        tuple(v) == b["invocation"]) else "the invocation tokens of the file are ignored: a plain adapter",
    "LC-LORA-IDS": lambda v, b: f"the list is refused: {v}" if v else NoEffect("ids of no adapter are ignored"),
    "LC-LORA-LIST": lambda v, b: NoEffect(
        f"adapters {_scales(v)}: " + ("the request's list" if b["given"] else "the server's, the request has no list")),
    "LC-LORA-CLEAR": lambda v, b: (
        f"the slot forgets its tokens: adapters {_scales(b['now'])} in place of {_scales(b['before'])}" if v else
        NoEffect("the slot keeps its tokens" + ("" if b["asked"] else ": without a list, adapters are not compared"))),
    "LC-ALORA-SCAN": lambda v, b: NoEffect(
        f"invocation tokens found at {v}" if v >= 0 else "invocation tokens not found: the aLoRA is off"),
    "LC-ALORA-ONE": lambda v, b: f"the request is refused: {v}" if v else NoEffect("at most one aLoRA is on"),
    "LC-ALORA-CAP": lambda v, b: NoEffect(f"n_past = {v}") if v == b["n_past"] else (
        f"n_past = {v}, before the invocation tokens at {b['start']}"),
    "LC-ALORA-SPLIT": lambda v, b: "the slot waits: another one leads the batch" if v < 0 else (
        f"tokens {b['held']}..{v - 1} are evaluated without the aLoRA" if v else
        NoEffect("the batch is evaluated with the slot's adapters")),
    "LC-ALORA-BACK": lambda v, b: f"slot {v} gets the scale of the aLoRA back" + (
        "" if v == b["split"] else f", although slot {b['split']} was split"),
    "LC-LORA-BATCH": lambda v, b: NoEffect("the slot joins the batch") if v else (
        f"the slot waits: adapters {_scales(b['own'])}, those of the batch {_scales(b['leader'])}"),
    "LC-LORA-LEAD": lambda v, b: "the failed request no longer leads the batch" if not v else (
        f"the failed request still leads the batch{'' if v is True else f', and the process may end: {v}'}"),
    "LC-LORA-INIT": lambda v, b: NoEffect(f"adapters {_scales(v)} at the start"),
    "LC-LORA-SAVE": lambda v, b: f"adapters {_scales(b['asked'])} in place of {_scales(b['own'])}: the slot " + (
        "is saved, and its tokens count as gone" if v else "is saved only if its tokens are unlike the prompt's"),
    "LC-LORA-FORGET": lambda v, b: f"{counted(b['held'], 'forgotten token')}: " + (
        "the cells are freed" if v else
        "the memory keeps the cells" + (", the slot its checkpoints" if v is None else "")),
    "LC-LORA-ENTRY": lambda v, b: f"the entry under adapters {_scales(b['scales'])} notes " + (
        "no adapters" if v is None else "its adapters" if v.active is None else
        "its adapters, and no row of an aLoRA" if v.active < 0 else
        f"its adapters, and rows of an aLoRA from {v.active} on"),
    "LC-LORA-FILE": lambda v, b: f"restored under adapters {_scales(b['file'] or ())}: the slot " + (
        f"has {_scales(v.scales)}" if v.scales else "does not know its adapters"),
    "LC-ALORA-START": lambda v, b: f"a refused request left the start {b['start']}: " + (
        "it stays" if v >= 0 else "it is forgotten"),
    "LC-ALORA-ROWS": lambda v, b: f"n_past = {v}" + (
        "" if v == b["n_past"] else f": rows from {b['active']} on were computed with an aLoRA"),
    "LC-ALORA-CHUNKS": lambda v, b: "blocks may be moved" if v else "no blocks are moved: " + (
        f"an aLoRA is invoked at {b['start']}" if b["start"] >= 0 else f"rows from {b['active']} on are of an aLoRA"),
    "LC-TASK-VALID": lambda v, b: f"the request is refused: {v}" if v else NoEffect("the model has all tokens"),
}
