"""What does a file ask of the server, step by step? The tables ``[[request]]`` and their checks."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from cachesim.base.errors import nearest, quoted
from cachesim.engines.manual import Option
from cachesim.scenarios.notation.check import check_asked
from cachesim.scenarios.notation.flags import FLAGS, check_after, check_flag
from cachesim.scenarios.notation.parse import parse_text
from cachesim.scenarios.notation.tree import ACTIONS, ROLES, Action, Asked, Pieces, joins
from cachesim.scenarios.notation.values import file_name
from cachesim.scenarios.notation.words import size
from cachesim.scenarios.option_checks import manual_of, read_option
from cachesim.scenarios.toml_fields import TomlTable

_COMPLETION = ("prompt", "chat", "answer", "answers", "n_predict", "cache_prompt", "id_slot", "why", *FLAGS)


def read_steps(tables: list[TomlTable], words: Mapping[str, int], engine: str) -> list[Asked | Action]:
    """All steps as they are written, for a server of this engine. Raises BadInput with the place of what is wrong."""
    steps: list[Asked | Action] = []
    saved: list[str] = []
    for table in tables:
        step = _action(table, saved, engine) if "do" in table.raw else _completion(table, words, engine)
        if isinstance(step, Asked) and step.together and not joins(step, steps):
            raise table.fault("together needs a request before it", "together")
        steps.append(step)
    return steps


def _action(table: TomlTable, saved: list[str], engine: str) -> Action:
    """A step that is no completion. ``saved``: files written so far, to which its own is added."""
    do = table.text("do")
    if do not in ACTIONS:
        raise table.fault(f"unknown action {quoted(do)}", "do", nearest(do, ACTIONS) or ", ".join(ACTIONS))
    takes = ACTIONS[do]
    table.only(("do", *takes, "why"))
    id_slot = table.integer("id_slot", None, low=0) if "id_slot" in takes else -1
    file = table.placed("file", file_name, table.text("file")) if "file" in takes else ""
    if do == "restore" and file not in saved:
        raise table.fault(f"file {quoted(file)} was not saved before", "file", nearest(file, saved))
    if do == "save":
        saved.append(file)
    return Action(do, id_slot, file, _changed(table, engine))


def _changed(table: TomlTable, engine: str) -> tuple[tuple[str, Option], ...]:
    """The options with which the server starts again."""
    return tuple(read_options(table.table("server"), engine).items())


def read_options(table: TomlTable, engine: str) -> dict[str, Option]:
    """The server's options that a table sets, by our names; the server's spellings are taken too. Raises BadInput."""
    given: dict[str, Option] = {}
    for key, value in table.raw.items():
        name, checked = table.placed(key, read_option, key, value, engine)
        if name in given:
            raise table.fault(f"{name} is set twice", key)
        given[name] = checked
    return given


def _completion(table: TomlTable, words: Mapping[str, int], engine: str) -> Asked:
    extra = [one.name for one in manual_of(engine).fields]
    table.only((*_COMPLETION, *extra))  # before a key that is spelled wrong is missed
    asked = Asked(
        prompt=() if "chat" in table.raw else _prompt(table, words, engine),
        answer=_pieces(table, "answer", table.text("answer"), words) if "answer" in table.raw else None,
        n_predict=table.integer("n_predict", None, low=-1) if "n_predict" in table.raw else None,
        cache_prompt=table.flag("cache_prompt", True),
        id_slot=table.integer("id_slot", -1, low=-1),
        answers=_answers(table, words),
        chat=_chat(table, words),
        extra=tuple(_checked(table, extra).items()),
        **_flags(table),
    )
    if "chat" in table.raw and "prompt" in table.raw:
        raise table.fault("a request has a prompt or a chat, not both", "chat")
    wrong = next((key for key in ("cancel_after", "answers", "answer") if key in table.raw), "prompt")
    table.placed(wrong, check_asked, asked, words)
    return asked


def _flags(table: TomlTable) -> dict[str, Any]:
    """The fields of a request that are no texts and have no sign in a line."""
    flags = _checked(table, FLAGS)
    table.placed("after", check_after, flags)
    return flags


def _checked(table: TomlTable, names: Iterable[str]) -> dict[str, Any]:
    return {name: table.placed(name, check_flag, name, table.raw[name]) for name in names if name in table.raw}


def _prompt(table: TomlTable, words: Mapping[str, int], engine: str) -> Pieces:
    """The words of the prompt, none where the engine has an answer to that."""
    if manual_of(engine).empty_prompt and table.raw.get("prompt") == "":
        return ()
    return _pieces(table, "prompt", table.text("prompt"), words)


def _chat(table: TomlTable, words: Mapping[str, int]) -> tuple[tuple[str, Pieces], ...]:
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


def _answers(table: TomlTable, words: Mapping[str, int]) -> tuple[Pieces, ...]:
    if "answers" not in table.raw:
        return ()
    return tuple(_pieces(table, "answers", text, words) for text in table.texts("answers"))


def _pieces(table: TomlTable, key: str, text: str, words: Mapping[str, int]) -> Pieces:
    pieces = table.placed(key, parse_text, text)
    table.placed(key, size, pieces, words)
    return pieces
