"""Numbers of whole conversations in short notation: a line for each conversation, ``name | request request ... | end``.

A request is written as ``slot:reused+evaluated>generated``: ``1:26c+9>2`` is answered in slot 1, reuses 26 tokens of a
checkpoint, evaluates 9 prompt tokens and generates 2 tokens. Reused tokens have the first letter of their source
(slot, checkpoint, entry). After them follow ``d3/8`` = 3 of 8 drafted tokens accepted, ``t`` = truncated,
``s`` = number of context shifts, ``x`` = cancelled, ``died`` = the process ended, ``!400`` = status 400, and further
completions in parentheses. The end has the lengths of the slots or entries, and the tokens that all passes evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from cachesim.engines.base import Answer


def answer_numbers(answer: Answer) -> str:
    """Return an answer in short notation."""
    reused = "".join(f"{n}{source[0]}" for source, n in answer.reused.items() if n) or "0"
    slot = f"{answer.id_slot}:" if answer.id_slot >= 0 else ""
    text = f"{slot}{reused}+{answer.prompt_n}>{answer.predicted_n}"
    text += f"d{answer.draft_n_accepted}/{answer.draft_n}" if answer.draft_n else ""
    text += "t" if answer.truncated else ""
    text += f"s{len(answer.shifts)}" if answer.shifts else ""
    text += "x" if answer.cancelled else ""
    text += "died" if answer.died else ""
    text += f"!{answer.status}" if answer.status != 200 else ""
    return text + "".join(f"({answer_numbers(child)})" for child in answer.children)


def numbers_line(name: str, answers: Iterable[Answer], lengths: Iterable[int], spent: int) -> str:
    """Return the line of a conversation."""
    requests = " ".join(map(answer_numbers, answers))
    return f"{name} | {requests} | {' '.join(map(str, lengths))} | {spent}"


def read(file: Path) -> dict[str, str]:
    """Return the lines of a file by the name of the conversation."""
    return {line.split(" | ")[0]: line for line in file.read_text("utf-8").splitlines()}


def write(file: Path, names: Iterable[str], line: Callable[[str], str]) -> None:
    """Write the lines of these conversations."""
    file.write_text("".join(f"{line(name)}\n" for name in names), "utf-8")
