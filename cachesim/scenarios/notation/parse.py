"""What tree does a line stand for? Whatever is wrong with it is told with its column and the step it belongs to."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator, NamedTuple, ParamSpec, TypeVar

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.scenarios.notation.flags import FLAGS, check_after, check_flag, plain
from cachesim.scenarios.notation.normalise import check_answer, check_lengths
from cachesim.scenarios.notation.tree import ACTIONS, ROLES, Action, Asked, Piece, Pieces, ScenarioLine, Value, joins
from cachesim.scenarios.notation.value_checks import file_name, integer, literal
from cachesim.scenarios.notation.word_lengths import canonical, check_word, span

# Where in a line does something stand? Parts of its text that know their column, and say so of what is wrong.

P = ParamSpec("P")
T = TypeVar("T")


class Misread(BadInput):
    """A part of a text that is not as it must be. Whoever read the whole text says where it stands."""

    def __init__(self, cause: str, hint: str, part: LinePart) -> None:
        super().__init__(cause, hint=hint)
        self.part = part

    def told(self) -> BadInput:
        """The error with its place; columns are counted from 1."""
        return BadInput(f"column {self.part.at + 1}, request {self.part.step}: {self.cause}", hint=self.hint)


class LinePart(NamedTuple):
    """A part of a line: its text, the column of its first sign (from 0), the step that it belongs to (from 0)."""

    text: str
    at: int = 0
    step: int = 0

    def stripped(self) -> LinePart:
        """Without the white space around it."""
        bare = self.text.lstrip()
        return self._replace(text=bare.rstrip(), at=self.at + len(self.text) - len(bare))

    def split(self, sign: str) -> Iterator[LinePart]:
        """What lies between the signs."""
        at = self.at
        for text in self.text.split(sign):
            yield self._replace(text=text, at=at)
            at += len(text) + len(sign)

    def words(self) -> Iterator[LinePart]:
        """What lies between stretches of white space."""
        return (self.group(match) for match in re.finditer(r"\S+", self.text))

    def partition(self, sign: str) -> tuple[LinePart, str, LinePart]:
        """What lies before the first such sign, the sign ("" = there is none), what lies behind it."""
        first, found, rest = self.text.partition(sign)
        return self._replace(text=first), found, self._replace(text=rest, at=self.at + len(first) + len(found))

    def group(self, match: re.Match[str], number: int = 0) -> LinePart:
        """A group of what was found in the text, an empty part where it was not found."""
        return self._replace(text=match[number] or "", at=self.at + max(match.start(number), 0))

    def fault(self, cause: str, hint: str = "") -> Misread:
        """The error to raise for this part."""
        return Misread(cause, hint, self)

    def placed(self, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of ``check(...)``; what it finds wrong is wrong with this part."""
        try:
            return check(*args, **kwargs)
        except BadInput as bad:
            raise self.fault(bad.cause, bad.hint) from None


Setting = Callable[[str, str], tuple[str, Value]]
"""Name and text of an option of the server -> its name and value. Raises BadInput for what is none."""

ROLE_OF = {role[0]: role for role in ROLES}
FORM = "a request is WORDS, then >ANSWER, !, @SLOT and {NAME=VALUE} in this order"
_OUTSIDE = re.compile(r"([^{}]+)(}?)")               # a text, and whether it ends with its brace
_ACTION = re.compile(r"\{([^{}]*)\}")
_REQUEST = re.compile(r"([^>!@{}]*)(>[^>!@{}]*)?(!)?(?:@([0-9]{1,9}))?(\{[^{}]*\})?")
_PIECE = re.compile(r"(\|?)([A-Za-z_]+)([0-9]{0,9})(?:\[([0-9]{0,9}):([0-9]{0,9})\])?")
_COUNT = re.compile(r"[0-9]{1,9}|-1")


class ParsedPiece(NamedTuple):
    """A piece where it stands. ``length``: the one that is written there, if any; ``answer``: it is what a model
    says."""

    piece: Piece
    length: int | None
    part: LinePart
    answer: bool


def parse(text: str, setting: Setting = lambda name, value: (name, literal(value))) -> ScenarioLine:
    """The line that a text stands for, canonical in all its steps. Raises BadInput."""
    reader = _Reader(setting)
    try:
        for part in steps_of(text):
            reader.read(part.stripped())
    except Misread as wrong:
        raise wrong.told() from None
    return ScenarioLine(reader.words, tuple(reader.steps))


def parse_text(text: str) -> Pieces:
    """Words without lengths, as a file has them: a prompt or an answer. Raises BadInput without a place."""
    found: list[ParsedPiece] = []
    pieces = _text(LinePart(text), found)
    for one in found:
        if one.length is not None:
            raise BadInput(f"{one.piece.word}{one.length}: lengths belong into [words]")
    return pieces


def steps_of(text: str) -> list[LinePart]:
    """The steps of a line, cut at every ``/`` that stands in no braces."""
    line = LinePart(text).stripped()
    cuts = [match.start(1) + at for match in _OUTSIDE.finditer(line.text) if not match[2]
            for at, sign in enumerate(match[1]) if sign == "/"]
    ends = zip([0, *(at + 1 for at in cuts)], [*cuts, len(line.text)], strict=True)
    return [LinePart(line.text[first:end], line.at + first, number) for number, (first, end) in enumerate(ends)]


class _Reader:
    """Reads step by step. ``words`` are those that have a length by now, ``saved`` the files written so far."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.words: dict[str, int] = {}
        self.steps: list[Asked | Action] = []
        self.saved: list[str] = []

    def read(self, part: LinePart) -> None:
        """Add a step."""
        action = _ACTION.fullmatch(part.text)
        self.steps.append(self._action(part.group(action, 1)) if action else self._request(part))

    def _request(self, part: LinePart) -> Asked | Action:
        match = _REQUEST.match(part.text)
        if match is None or match.end() < len(part.text):
            end = match.end() if match else 0
            raise part._replace(at=part.at + end).fault(f"{quoted(part.text)} cannot be read ({FORM})")
        said: list[ParsedPiece] = []
        step = _written(part, match, said)
        places: dict[str, LinePart] = {}
        if braces := match[5]:
            inside = part.group(match, 5)
            flags, places = _flags(inside._replace(text=braces[1:-1], at=inside.at + 1), said)
            step = step._replace(**flags)
        self._define(said)
        for one in said:
            one.part.placed(check_answer if one.answer else span, one.piece, self.words)
        wrong = places.get("cancel_after") or places.get("answers") or part
        wrong.placed(check_lengths, step, self.words)
        if step.together and not joins(step, self.steps):
            raise places["together"].fault("together needs a request before it")
        return canonical(step, self.words)

    def _define(self, said: list[ParsedPiece]) -> None:
        """Enter words at their first use; later the length may be left out or must be the same."""
        for piece, length, part, _ in said:
            if length is None:
                continue
            if self.words.get(piece.word, length) != length:
                raise part.fault(f"word {quoted(piece.word)} has two lengths, {self.words[piece.word]} and {length}")
            part.placed(check_word, piece.word, length)
            self.words[piece.word] = length

    def _action(self, part: LinePart) -> Action:
        first, *rest = [*part.words()] or [part]
        do, at, slot = first.partition("@")
        if do.text not in ACTIONS:
            raise first.fault(f"unknown action {quoted(do.text)}", nearest(do.text, ACTIONS) or ", ".join(ACTIONS))
        settings = [word for word in rest if "=" in word.text]
        names = [word for word in rest if "=" not in word.text]
        takes = ACTIONS[do.text]
        for key, found in (("id_slot", [slot] if at else []), ("file", names), ("server", settings)):
            if found and key not in takes:
                raise found[0].fault(f"{do.text} takes no {'option' if key == 'server' else key}")
            if not found and key in takes and key != "server":
                raise first.fault(f"{key} is missing")
        id_slot = slot.placed(integer, "id_slot", plain(slot.text), 0) if "id_slot" in takes else -1
        file = self._file(do.text, names) if names else ""
        return Action(do.text, id_slot, file, tuple(dict(self._setting(word) for word in settings).items()))

    def _file(self, do: str, names: list[LinePart]) -> str:
        file = names[0].placed(file_name, " ".join(name.text for name in names))
        if do == "restore" and file not in self.saved:
            raise names[0].fault(f"file {quoted(file)} was not saved before", nearest(file, self.saved))
        if do == "save":
            self.saved.append(file)
        return file

    def _setting(self, word: LinePart) -> tuple[str, Value]:
        name, _, value = word.partition("=")
        return word.placed(self.setting, name.text, value.text)


def _written(part: LinePart, match: re.Match[str], said: list[ParsedPiece]) -> Asked:
    """What a request says in words and signs."""
    prompt, answer = part.group(match, 1), part.group(match, 2).partition(">")[2]
    sampled = _COUNT.fullmatch(answer.text)
    chat = _chat(prompt, said)
    return Asked(
        prompt=() if chat else _text(prompt, said), chat=chat,
        answer=_text(answer, said, answer=True) if match[2] and not sampled else None,
        n_predict=int(sampled[0]) if sampled else None,
        cache_prompt=match[3] is None, id_slot=-1 if match[4] is None else int(match[4]),
    )


def _chat(part: LinePart, said: list[ParsedPiece]) -> tuple[tuple[str, Pieces], ...]:
    """The messages of a chat, () for anything else."""
    if not re.match(r"\s*[a-z]+:", part.text):
        return ()
    messages = []
    for message in part.split("+"):
        role, _, content = message.stripped().partition(":")
        if role.text not in ROLE_OF:
            raise role.fault(f"{quoted(role.text)} is no role", ", ".join(f"{k} {v}" for k, v in ROLE_OF.items()))
        messages.append((ROLE_OF[role.text], _text(content, said) if content.text.strip() else ()))
    return tuple(messages)


def _text(part: LinePart, said: list[ParsedPiece], answer: bool = False) -> Pieces:
    """The words of a prompt or of an answer; they are added to ``said``."""
    if not part.text.strip():
        raise part.fault("no words (write at least one, such as S40)")
    found = [_piece(one.stripped(), answer) for one in part.split(".")]
    said += found
    return tuple(one.piece for one in found)


def _piece(part: LinePart, answer: bool) -> ParsedPiece:
    match = _PIECE.fullmatch(part.text)
    if match is None:
        raise part.fault(f"{quoted(part.text)} is not a word (letters, then an optional slice such as [2:9])")
    bar, word, *numbers = match.groups()
    length, start, stop = (int(one) if one else None for one in numbers)
    if match[4] == match[5] == "":
        raise part.fault(f"{quoted(part.text)}: an empty slice (leave it out for the whole word)")
    return ParsedPiece(Piece(word, bool(bar), start, stop), length, part, answer)


def _flags(braces: LinePart, said: list[ParsedPiece]) -> tuple[dict[str, Any], dict[str, LinePart]]:
    """What stands in braces behind a request: the fields that it sets, and where each of them stands."""
    fields: dict[str, Any] = {}
    places: dict[str, LinePart] = {}
    for word in braces.words():
        name, equals, value = word.partition("=")
        name, plus, after = name.partition("+")
        alone = name.text == "together"
        if name.text in places or bool(equals) == alone or (plus and not alone):
            form = "NAME=VALUE, each once; together or together+N"
            raise word.fault(f"{quoted(word.text)} in braces cannot be read ({form})")
        places[name.text] = word
        if name.text == "answers":
            fields["answers"] = tuple(_text(one, said, answer=True) for one in value.split("/"))
            continue
        read = FLAGS[name.text].read if name.text in FLAGS else plain
        checked = word.placed(check_flag, name.text, True if alone else read(value.text))
        if name.text in FLAGS:
            fields[name.text] = checked
        else:
            fields["extra"] = (*fields.get("extra", ()), (name.text, checked))
        if plus:
            fields["after"] = word.placed(check_flag, "after", plain(after.text))
    places.get("after", braces).placed(check_after, fields)
    return fields, places
