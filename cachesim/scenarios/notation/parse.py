"""Parser of the notation. Errors carry the column and the step."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator, NamedTuple, ParamSpec, TypeVar

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.scenarios.notation.flags import FLAGS, check_after, check_flag, parse_value
from cachesim.scenarios.notation.normalise import check_answer, check_lengths
from cachesim.scenarios.notation.tree import (
    ACTIONS,
    ROLES,
    Action,
    LineRequest,
    Piece,
    Pieces,
    ScenarioLine,
    Value,
    joins,
)
from cachesim.scenarios.notation.value_checks import file_name, integer, literal, share
from cachesim.scenarios.notation.word_lengths import LENGTH, canonical, check_word, read_length, span

P = ParamSpec("P")
T = TypeVar("T")


class NotationError(BadInput):
    """Syntax error in a part of a line. ``parse`` turns it into a BadInput with column and step."""

    def __init__(self, cause: str, hint: str, part: LinePart) -> None:
        super().__init__(cause, hint=hint)
        self.part = part

    def located(self) -> BadInput:
        """Return the error with its column (from 1) and step (from 0)."""
        return BadInput(f"column {self.part.at + 1}, request {self.part.step}: {self.cause}", hint=self.hint)


class LinePart(NamedTuple):
    """A part of a line: its text, the column of its first character (from 0), and its step (from 0)."""

    text: str
    at: int = 0
    step: int = 0

    def stripped(self) -> LinePart:
        """Return the part without surrounding white space."""
        bare = self.text.lstrip()
        return self._replace(text=bare.rstrip(), at=self.at + len(self.text) - len(bare))

    def split(self, sign: str) -> Iterator[LinePart]:
        """Split at each ``sign``, a separator; yield the parts with their columns."""
        at = self.at
        for text in self.text.split(sign):
            yield self._replace(text=text, at=at)
            at += len(text) + len(sign)

    def words(self) -> Iterator[LinePart]:
        """Split at white space; return the parts with their columns."""
        return (self.group(match) for match in re.finditer(r"\S+", self.text))

    def partition(self, sign: str) -> tuple[LinePart, str, LinePart]:
        """Return the part before the first ``sign``, the sign ("" if it is missing), and the part after it."""
        first, found, rest = self.text.partition(sign)
        return self._replace(text=first), found, self._replace(text=rest, at=self.at + len(first) + len(found))

    def group(self, match: re.Match[str], number: int = 0) -> LinePart:
        """Return a group of a match in the text, an empty part if the group did not match."""
        return self._replace(text=match[number] or "", at=self.at + max(match.start(number), 0))

    def fault(self, cause: str, hint: str = "") -> NotationError:
        """Return the error for this part."""
        return NotationError(cause, hint, self)

    def placed(self, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return ``check(*args, **kwargs)``; add the place of this part to a BadInput that it raises."""
        try:
            return check(*args, **kwargs)
        except BadInput as bad:
            raise self.fault(bad.cause, bad.hint) from None


Setting = Callable[[str, str], tuple[str, Value]]
"""Function from name and text of a server option to its name and value. Raises BadInput for an invalid option."""

ROLE_OF = {role[0]: role for role in ROLES}
FORM = "a request is WORDS, then >ANSWER, !, @SLOT and {NAME=VALUE} in this order"
_OUTSIDE = re.compile(r"([^{}]+)(}?)")               # text, and the closing brace if it is in braces
_ACTION = re.compile(r"\{([^{}]*)\}")
_REQUEST = re.compile(r"([^>!@{}]*)(>[^>!@{}]*)?(!)?(?:@([0-9]{1,9}))?(\{[^{}]*\})?")
_PIECE = re.compile(rf"(\|?)([A-Za-z_]+)({LENGTH})?(?:\[([0-9]{{0,9}}):([0-9]{{0,9}})\])?")
_COUNT = re.compile(r"[0-9]{1,9}|-1")


class ParsedPiece(NamedTuple):
    """A piece with its place. ``length``: the length written after it, if any; ``is_answer``: True in an answer."""

    piece: Piece
    length: int | None
    part: LinePart
    is_answer: bool


def parse(text: str, setting: Setting = lambda name, value: (name, literal(value))) -> ScenarioLine:
    """Parse a line; return it with all steps in canonical form. Raise BadInput."""
    reader = _Reader(setting)
    try:
        for part in steps_of(text):
            reader.read(part.stripped())
    except NotationError as wrong:
        raise wrong.located() from None
    return ScenarioLine(reader.words, tuple(reader.steps))


def parse_text(text: str) -> Pieces:
    """Parse words without lengths, as in a file: a prompt or an answer. Raise BadInput without a place."""
    found: list[ParsedPiece] = []
    pieces = _text(LinePart(text), found)
    for parsed in found:
        if parsed.length is not None:
            raise BadInput(f"{parsed.piece.word}{parsed.length}: lengths belong in [words]")
    return pieces


def steps_of(text: str) -> list[LinePart]:
    """Return the steps of a line, split at every ``/`` outside braces."""
    line = LinePart(text).stripped()
    cuts = [match.start(1) + at for match in _OUTSIDE.finditer(line.text) if not match[2]
            for at, sign in enumerate(match[1]) if sign == "/"]
    ends = zip([0, *(at + 1 for at in cuts)], [*cuts, len(line.text)], strict=True)
    return [LinePart(line.text[first:end], line.at + first, number) for number, (first, end) in enumerate(ends)]


class _Reader:
    """Parser of the steps. ``words``: lengths of the words so far; ``saved``: slot files written so far."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.words: dict[str, int] = {}
        self.steps: list[LineRequest | Action] = []
        self.saved: list[str] = []

    def read(self, part: LinePart) -> None:
        """Parse a step and add it."""
        action = _ACTION.fullmatch(part.text)
        self.steps.append(self._action(part.group(action, 1)) if action else self._request(part))

    def _request(self, part: LinePart) -> LineRequest | Action:
        match = _REQUEST.match(part.text)
        assert match is not None                              # all of its parts are optional
        if match.end() < len(part.text):
            raise part._replace(at=part.at + match.end()).fault(f"{quoted(part.text)} cannot be read ({FORM})")
        parsed: list[ParsedPiece] = []
        step = _asked(part, match, parsed)
        places: dict[str, LinePart] = {}
        if braces := match[5]:
            inside = part.group(match, 5)
            flags, places = _flags(inside._replace(text=braces[1:-1], at=inside.at + 1), parsed)
            step = step._replace(**flags)
        self._define(parsed)
        for piece in parsed:
            piece.part.placed(check_answer if piece.is_answer else span, piece.piece, self.words)
        wrong = places.get("cancel_after") or places.get("answers") or part
        wrong.placed(check_lengths, step, self.words)
        if step.together and not joins(step, self.steps):
            raise places["together"].fault("together needs a request before it")
        return canonical(step, self.words)

    def _define(self, parsed: list[ParsedPiece]) -> None:
        """Define words at their first use. Later uses have no length or an equal length."""
        for piece, length, part, _ in parsed:
            if length is None:
                continue
            if str(self.words.get(piece.word, length)) != str(length):
                raise part.fault(f"word {quoted(piece.word)} has two lengths, {self.words[piece.word]} and {length}")
            part.placed(check_word, piece.word, length)
            self.words[piece.word] = length

    def _action(self, part: LinePart) -> Action:
        first, *rest = [*part.words()] or [part]
        do, at, slot = first.partition("@")
        if do.text not in ACTIONS:
            hint = nearest(do.text, ACTIONS) or ", ".join(ACTIONS)
            raise first.fault(f"unknown server action {quoted(do.text)}", hint)
        takes = ACTIONS[do.text]
        cuts = [word for word in rest if word.text.startswith("percent=") and "percent" in takes]
        settings = [word for word in rest if "=" in word.text and word not in cuts]
        names = [word for word in rest if "=" not in word.text]
        named = "scales" if "scales" in takes else "file"
        for key, found in (("id_slot", [slot] if at else []), (named, names), ("server", settings)):
            if found and key not in takes:
                raise found[0].fault(f"{do.text} takes no {'option' if key == 'server' else key}")
            if not found and key in takes and key not in ("server", "scales"):
                raise first.fault(f"{key} is missing")
        percent = cuts[-1].placed(share, parse_value(cuts[-1].partition("=")[2].text)) if cuts else 100
        id_slot = slot.placed(integer, "id_slot", parse_value(slot.text), 0) if "id_slot" in takes else -1
        file = self._file(do.text, names) if names and named == "file" else ""
        scales = " ".join(name.text for name in names) if named == "scales" else ""
        return Action(do.text, id_slot, file, tuple(dict(map(self._setting, settings)).items()), percent, scales)

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


def _asked(part: LinePart, match: re.Match[str], parsed: list[ParsedPiece]) -> LineRequest:
    """Return the request of words and signs, without braces. Adds its pieces to ``parsed``."""
    prompt, answer = part.group(match, 1), part.group(match, 2).partition(">")[2]
    sampled = _COUNT.fullmatch(answer.text)
    chat = _chat(prompt, parsed)
    return LineRequest(
        prompt=() if chat else _text(prompt, parsed), chat=chat,
        answer=_text(answer, parsed, answer=True) if match[2] and not sampled else None,
        n_predict=int(sampled[0]) if sampled else None,
        cache_prompt=match[3] is None, id_slot=-1 if match[4] is None else int(match[4]),
    )


def _chat(part: LinePart, parsed: list[ParsedPiece]) -> tuple[tuple[str, Pieces], ...]:
    """Return the messages of a chat, () if the prompt is not a chat. Adds its pieces to ``parsed``."""
    if not re.match(r"\s*[a-z]+:", part.text):
        return ()
    messages = []
    for message in part.split("+"):
        role, _, content = message.stripped().partition(":")
        if role.text not in ROLE_OF:
            raise role.fault(f"unknown role {quoted(role.text)}", ", ".join(f"{k} {v}" for k, v in ROLE_OF.items()))
        messages.append((ROLE_OF[role.text], _text(content, parsed) if content.text.strip() else ()))
    return tuple(messages)


def _text(part: LinePart, parsed: list[ParsedPiece], answer: bool = False) -> Pieces:
    """Return the words of a prompt or an answer. Adds them to ``parsed``."""
    if not part.text.strip():
        raise part.fault("no words (expected at least 1 word, such as S40)")
    found = [_piece(word.stripped(), answer) for word in part.split(".")]
    parsed += found
    return tuple(piece.piece for piece in found)


def _piece(part: LinePart, answer: bool) -> ParsedPiece:
    match = _PIECE.fullmatch(part.text)
    if match is None:
        raise part.fault(f"{quoted(part.text)} is not a word (letters, then an optional slice such as [2:9])")
    bar, word, written, *numbers = match.groups()
    length = read_length(written) if written else None
    start, stop = (int(number) if number else None for number in numbers)
    if match[4] == match[5] == "":
        raise part.fault(f"{quoted(part.text)}: an empty slice (omit it for the whole word)")
    return ParsedPiece(Piece(word, bool(bar), start, stop), length, part, answer)


def _flags(braces: LinePart, parsed: list[ParsedPiece]) -> tuple[dict[str, Any], dict[str, LinePart]]:
    """Return the fields in the braces after a request, and the place of each. Adds pieces to ``parsed``."""
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
            fields["answers"] = tuple(_text(text, parsed, answer=True) for text in value.split("/"))
            continue
        read = FLAGS[name.text].read if name.text in FLAGS else parse_value
        checked = word.placed(check_flag, name.text, True if alone else read(value.text))
        if name.text in FLAGS:
            fields[name.text] = checked
        else:
            fields["extra"] = (*fields.get("extra", ()), (name.text, checked))
        if plus:
            fields["after"] = word.placed(check_flag, "after", parse_value(after.text))
    places.get("after", braces).placed(check_after, fields)
    return fields, places
