"""What does a file ask of the server, step by step? The tables ``[[request]]`` and their checks."""

from __future__ import annotations

import re
from typing import Any, Mapping

from cachesim.engines.manual import Option
from cachesim.errors import nearest, quoted
from cachesim.scenarios.fields import Table
from cachesim.scenarios.options import check_option, manual_of
from cachesim.scenarios.schema import ACTIONS, ROLES, TASKS, Action
from cachesim.scenarios.steps import Asked, Pieces, check_asked
from cachesim.scenarios.words import parse_pieces

_FLAGS = ("task", "n_keep", "n_discard", "n_cache_reuse", "n_cmpl", "cancel_after", "drafts", "draft_else", "together",
          "after", "seed")  # fmt: skip
_COMPLETION = ("prompt", "chat", "answer", "answers", "n_predict", "cache_prompt", "id_slot", "why", *_FLAGS)
_KEYS = {"save": ("do", "id_slot", "file", "why"), "restore": ("do", "id_slot", "file", "why"),
         "erase": ("do", "id_slot", "why"), "restart": ("do", "server", "why")}  # fmt: skip


def read_steps(tables: list[Table], words: Mapping[str, int], engine: str) -> list[Asked]:
    """All steps as they are written, for a server of this engine. Raises BadInput with the place of what is wrong."""
    asked: list[Asked] = []
    saved: list[str] = []
    for table in tables:
        if "do" not in table.raw:
            one = _completion(table, words, engine)
            if one.together and (not asked or asked[-1].action is not None):
                raise table.fault("together needs a request before it", "together")
        else:
            one = read_action(table, saved, engine)
        asked.append(one)
    return asked


def read_action(table: Table, saved: list[str], engine: str) -> Asked:
    """A step that is no completion. ``saved``: files written so far, to which its own is added. Raises BadInput."""
    do = table.text("do")
    if do not in ACTIONS:
        raise table.fault(f"unknown action {quoted(do)}", "do", nearest(do, ACTIONS) or ", ".join(ACTIONS))
    table.only(_KEYS[do])
    id_slot = -1 if do == "restart" else table.integer("id_slot", None, low=0)
    file = table.text("file") if do in ("save", "restore") else ""
    if file and not re.fullmatch(r"[A-Za-z0-9_]{1,64}", file):
        raise table.fault(f"file {quoted(file)}: a name is made of letters, digits and underscores", "file")
    if do == "restore" and file not in saved:
        raise table.fault(f"file {quoted(file)} was not saved before", "file", nearest(file, saved))
    if do == "save":
        saved.append(file)
    return Asked((), why=table.text("why", ""), action=Action(do, id_slot, file, _changed(table, engine)))


def _changed(table: Table, engine: str) -> tuple[tuple[str, Option], ...]:
    """The options with which the server starts again."""
    server = table.table("server")
    return tuple((key, server.placed(key, check_option, key, value, engine)) for key, value in server.raw.items())


def _completion(table: Table, words: Mapping[str, int], engine: str) -> Asked:
    table.only(_COMPLETION)             # before a key that is spelled wrong is missed
    asked = Asked(
        prompt=() if "chat" in table.raw else _prompt(table, words, engine),
        answer=_pieces(table, "answer", table.text("answer"), words) if "answer" in table.raw else None,
        n_predict=_count(table, "n_predict"),
        cache_prompt=table.flag("cache_prompt", True),
        id_slot=table.integer("id_slot", -1, low=-1),
        why=table.text("why", ""),
        answers=_answers(table, words),
        chat=_chat(table, words),
        **read_flags(table),
    )
    if "chat" in table.raw and "prompt" in table.raw:
        raise table.fault("a request has a prompt or a chat, not both", "chat")
    wrong = next((key for key in ("cancel_after", "answers", "answer") if key in table.raw), "prompt")
    table.placed(wrong, check_asked, asked, words)
    return asked


def read_flags(table: Table) -> dict[str, Any]:
    """The fields of a request that are no texts and have no sign in a line. Raises BadInput, also for a key that is
    none of a request's."""
    table.only(_COMPLETION)
    together, after = table.flag("together", False), table.integer("after", 0, low=0)
    if after and not together:
        raise table.fault("after counts from the request before, so it needs together = true", "after")
    return {
        "task": _task(table),
        "n_keep": table.integer("n_keep", 0, low=-1),
        "n_discard": table.integer("n_discard", 0, low=0),
        "n_cache_reuse": _count(table, "n_cache_reuse"),
        "n_cmpl": table.integer("n_cmpl", 1, low=0),
        "cancel_after": _count(table, "cancel_after"),
        "drafts": _drafts(table),
        "draft_else": table.integer("draft_else", 0, low=0),
        "together": together,
        "after": after,
        "seed": table.flag("seed", False),
    }


def _prompt(table: Table, words: Mapping[str, int], engine: str) -> Pieces:
    """The words of the prompt, none where the engine has an answer to that."""
    if manual_of(engine).empty_prompt and table.raw.get("prompt") == "":
        return ()
    return _pieces(table, "prompt", table.text("prompt"), words)


def _task(table: Table) -> str:
    task = table.text("task", TASKS[0])
    if task not in TASKS:
        raise table.fault(f"unknown task {quoted(task)}", "task", nearest(task, TASKS) or ", ".join(TASKS))
    return task


def _count(table: Table, key: str) -> int | None:
    """A number that may be left out."""
    return table.integer(key, None, low=0) if key in table.raw else None


def _chat(table: Table, words: Mapping[str, int]) -> tuple[tuple[str, Pieces], ...]:
    """Messages, each written as its role and, behind a space, its words; a message may be empty."""
    if "chat" not in table.raw:
        return ()
    messages = []
    for text in table.texts("chat"):
        role, _, content = text.partition(" ")
        if role not in ROLES:
            raise table.fault(f"unknown role {quoted(role)}", "chat", nearest(role, ROLES) or ", ".join(ROLES))
        messages.append((role, _pieces(table, "chat", content, words) if content.strip() else ()))
    return tuple(messages)


def _answers(table: Table, words: Mapping[str, int]) -> tuple[Pieces, ...]:
    if "answers" not in table.raw:
        return ()
    return tuple(_pieces(table, "answers", text, words) for text in table.texts("answers"))


def _drafts(table: Table) -> tuple[tuple[int, int], ...]:
    """Pairs of tokens drafted and tokens accepted."""
    if "drafts" not in table.raw:
        return ()
    return tuple(_draft(table, value) for value in table.items("drafts"))


def _draft(table: Table, value: Any) -> tuple[int, int]:
    pair = table.integers("drafts", value)
    if len(pair) != 2 or pair[1] > pair[0]:
        what = "[drafted, accepted], not more accepted than drafted"
        raise table.fault(f"drafts: {quoted(value)} must be {what}", "drafts")
    return pair[0], pair[1]


def _pieces(table: Table, key: str, text: str, words: Mapping[str, int]) -> Pieces:
    pieces = table.placed(key, parse_pieces, text)
    for piece in pieces:
        if piece.length is not None:
            raise table.fault(f"{piece.word}{piece.length}: lengths belong into [words]", key)
    table.placed(key, check_asked, Asked(pieces), words)
    return pieces
