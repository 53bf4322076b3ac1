"""The log of a simulated conversation, written with the grammar of llama-server's lines."""

from __future__ import annotations

from functools import cache

from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line
from tests.replay.run_log import log_of

PROFILE = "llama_cpp@b11549"
USERS, ANSWERS = (150, 180, 160, 140), (300, 250, 280, 200)
SYSTEM, BEFORE = 6000, 31    # tokens of the system prompt, and before its date


def dated_line(date: int, last: bool, turns: int = 4) -> str:
    """Four turns with a system prompt that contains a date, which changes each turn, after its token 31. ``last``: the
    date is at the end of the prompt instead. ``date``: its tokens."""
    out: list[str] = []
    history = ""
    for turn in range(turns):
        name = "ABCDEFGH"[turn]
        head = ["H" if turn else f"H{BEFORE}", "S" if turn else f"S{SYSTEM - BEFORE - date}"]
        new = f"D{name}{date}"
        prompt = ".".join(head if last else [head[0], new, head[1]])
        user = f".|U{name}"
        tail = f".{new}" if last else ""
        out.append(f"{prompt}{history}{user}{USERS[turn % 4]}{tail}>a{name.lower()}{ANSWERS[turn % 4]}")
        history += f"{user}.a{name.lower()}"
    return "/".join(out)


def simulated(line: str, model: str = "GGGA", **server):
    """Return the judged run of a line."""
    options = {"parallel": 1, "ctx_size": 32768, **server}
    return run_judged(from_line(line, model=model, profiles=(PROFILE,), server=options), PROFILE, "provenance")


@cache
def evaluated(line: str, model: str = "GGGA", **server) -> int:
    """Return the prompt tokens that a run of the line evaluates."""
    return sum(one.answer.prompt_n for one in simulated(line, model, **server).requests)


@cache
def simulated_log(line: str, model: str = "GGGA", verbosity: int = 3, **server) -> str:
    """Return the log of a run of the line, whose requests are sent one after another."""
    return "\n".join(log_of(simulated(line, model, **server), verbosity)) + "\n"
