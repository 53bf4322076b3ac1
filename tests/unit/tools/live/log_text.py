"""Log of a simulated llama-server, as the real one of its build writes it, without levels."""

from __future__ import annotations

import re

from cachesim.engines.llama_cpp.log_events import EVENTS, OLDER_SPELLINGS, RECORDED_SPELLINGS

LINES = (*EVENTS, *OLDER_SPELLINGS, *RECORDED_SPELLINGS)


def lines_of(events, rules):
    """Return the lines that report events, in order. A warning or an error is a line without a level."""
    return [line_of(event, rules) for event in events if event.logged and event.ev not in rules.silent]


def line_of(event, rules):
    """Return the line of an event, in the spelling that has its fields."""
    task = getattr(event, "task", None)
    fields = event.record(False, {task: task})
    known = {name: value for name, value in fields.items() if name not in rules.unlogged.get(event.ev, ())}
    del known["ev"]
    slot, task = known.pop("slot", None), known.pop("task", None)
    text = known["text"] if "text" in known else filled(event.ev, known)
    place = "srv  said: " if slot is None else f"slot said: id {slot} | task {-1 if task is None else task} | "
    return place + text


def filled(kind, fields):
    """Return the template of a kind with these fields, filled."""
    names = {line.template: set(re.findall(r"\{(\w+)\}", line.template)) for line in LINES if line.ev == kind}
    template = next(template for template, used in names.items() if used == {*fields})
    return re.sub(r"\{(\w*)\}", lambda found: spelled(fields.get(found[1], 0)), template)


def spelled(value):
    """Return a number or a switch as the log spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
