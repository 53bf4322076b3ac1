"""How is a scenario written in one line, and read back?

``S40.A60/B80/S.C50>r4@1``: requests separated by ``/``, words by dots, a word with its length at first use.
After a prompt, in this order: ``>r4`` the forced answer, or ``>3`` three tokens of the sampler; ``!`` sends
cache_prompt = false; ``@1`` asks for slot 1; braces hold what has no sign, and steps that are no requests (braces.py).
``|`` before a word: a user message starts here. ``W[2:9]`` is a part of a word. ``s:S40+u:A60`` is a chat, of a system
and a user message (``a`` assistant, ``t`` tool).
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping

from cachesim.engines.manual import Option
from cachesim.errors import BadInput, quoted
from cachesim.scenarios.braces import action_of, flagged, requests_of
from cachesim.scenarios.options import check_engine, check_model, check_profile, filled
from cachesim.scenarios.schema import DEFAULT_PROFILE, ROLES, Scenario
from cachesim.scenarios.steps import Asked, check_asked, make_steps
from cachesim.scenarios.words import Piece, check_word, parse_pieces

_WORD = r"[a-z]:|[A-Za-z_]+"
ROLE_OF = {role[0]: role for role in ROLES}
_STEP = re.compile(r"([^>!@{}]*)(?:>([^>!@{}]*))?(!)?(?:@([0-9]{1,9}))?(?:\{([^{}]*)\})?")
_ACTION = re.compile(r"\{([^{}]*)\}")


def from_line(
    line: str,
    *,
    model: str = "GGGA",
    profiles: tuple[str, ...] = (DEFAULT_PROFILE,),
    server: Mapping[str, Option] | None = None,
) -> Scenario:
    """The scenario that a line stands for. ``profiles`` are of one engine, of any version. Raises BadInput naming the
    request (from 0) that is wrong."""
    engine = profiles[0].partition("@")[0]
    check_engine(engine)
    for name in profiles:
        check_profile(name, engine, None)
    asked, words = _parse(line, engine)
    check_model(model, engine)
    return Scenario(
        id="try",
        title="from the one-line notation",
        source=("cachesim",),
        why="",
        engine=engine,
        model=model,
        profiles=profiles,
        server=filled(server or {}, engine),
        words=words,
        steps=make_steps(asked, words, filled(server or {}, engine)),
    )


def _parse(line: str, engine: str) -> tuple[list[Asked], dict[str, int]]:
    words: dict[str, int] = {}
    asked: list[Asked] = []
    saved: list[str] = []
    for number, text in enumerate(requests_of(line)):
        try:
            if action := _ACTION.fullmatch(text.strip()):
                asked.append(action_of(action[1], saved, engine))
                continue
            one = _asked(text.strip())
            if one.together and (not asked or asked[-1].action is not None):
                raise BadInput("together needs a request before it")
            for piece in _pieces(one):
                _define(piece, words)
            check_asked(one, words)
        except BadInput as bad:
            raise BadInput(f"request {number}: {bad.cause}", hint=bad.hint) from None
        asked.append(one)
    return asked, words


def _asked(text: str) -> Asked:
    match = _STEP.fullmatch(text)
    if match is None:
        form = "WORDS, then >ANSWER, !, @SLOT and {NAME=VALUE} in this order"
        raise BadInput(f"{quoted(text)} cannot be read (a request is {form})")
    prompt, answer, bang, slot, braces = match.groups()
    sampled = int(answer) if re.fullmatch("[0-9]{1,9}", answer or "") else None
    chat = _chat(prompt)
    asked = Asked(
        prompt=() if chat else parse_pieces(prompt),
        chat=chat,
        answer=None if answer is None or sampled is not None else parse_pieces(answer),
        n_predict=sampled,
        cache_prompt=bang is None,
        id_slot=-1 if slot is None else int(slot),
    )
    return asked if braces is None else flagged(asked, braces)


def _chat(text: str) -> tuple[tuple[str, tuple[Piece, ...]], ...]:
    """The messages of a chat, () for anything else."""
    found = []
    if not re.match(r"\s*[a-z]+:", text):
        return ()
    for message in text.split("+"):
        role, _, content = message.strip().partition(":")
        if role not in ROLE_OF:
            raise BadInput(f"{quoted(role)} is no role", hint=", ".join(f"{k} {v}" for k, v in ROLE_OF.items()))
        found.append((ROLE_OF[role], parse_pieces(content) if content.strip() else ()))
    return tuple(found)


def _pieces(asked: Asked) -> Iterator[Piece]:
    yield from asked.prompt
    for _, pieces in asked.chat:
        yield from pieces
    for pieces in (asked.answer or (), *asked.answers):
        yield from pieces


def _define(piece: Piece, words: dict[str, int]) -> None:
    """Enter the word at its first use; later its length may be left out or must be the same."""
    if piece.length is None:
        return                             # a word never defined is found by check_asked
    if words.get(piece.word, piece.length) != piece.length:
        raise BadInput(f"word {quoted(piece.word)} has two lengths, {words[piece.word]} and {piece.length}")
    check_word(piece.word, piece.length)
    words[piece.word] = piece.length


def to_line(scenario: Scenario) -> str:
    """The requests of a scenario in one line. Server, model and expectations are not part of it.

    Reading the line back gives the same requests if [words] lists the words in the order of their first
    use and no unused word before a used one; otherwise the same requests with tokens renumbered.
    """
    seen: set[str] = set()

    def sized(match: re.Match[str]) -> str:
        word = match[0]
        if word[0] == "{":                 # of what stands in braces only answers are words
            return re.sub(r"(?<=answers=)[^ }]+", lambda found: re.sub(_WORD, sized, found[0]), word)
        if word in seen or word[-1] == ":":
            return word                    # known, or the role of a message
        seen.add(word)
        return f"{word}{scenario.words[word]}"

    texts = (f"{{{step.text}}}" if step.action else re.sub(rf"\{{[^}}]*\}}|{_WORD}", sized, step.text)
             for step in scenario.steps)
    return "/".join(texts)
