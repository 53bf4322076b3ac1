"""Words of a pasted command line, split as a POSIX shell splits them, each with its place.

Only one simple command is accepted, after lines that set variables or prepare the shell (``cd``). Where its output
goes (redirections, a pipe) and a last ``&`` are left out; other lists of commands are refused with their place. A
variable that such a line sets is replaced by its text, ``${NAME:-text}`` by its default. Other variables and command
substitutions are kept and marked, because they may stand where their values do not matter.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.base.untrusted_files import parse_json

LONGEST = 20_000           # characters of a command line, and of all values that replace variables
MOST_WORDS = 2_000

_OPERATOR = re.compile(r"&&|\|\||<<|<\(|>\(|\$\(|[|&;`()]")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w .-]*>(?=[\s/:\"']|$)")             # to be replaced by the reader of a page
_REDIRECTION = re.compile(r"(?:[0-9]{0,2}|&)(?:>>|>\||>&|<&|>|<)(?![<(])[ \t]*")
_VARIABLE = re.compile(r"\$(?:\{[^}]*\}?|[A-Za-z_]\w*|[0-9?!#@*$]|\([^()`\n]*\))|`[^`\n]*`")
_NAMED = re.compile(r"\$(?:\{(\w+)\}|(\w+))")                # a variable without further syntax
_DEFAULTED = re.compile(r"\$\{(\w+):?-([^{}$`]*)\}")       # a variable with a default
_PROMPT = re.compile(r"\s*(?:PS )?[A-Za-z]:\\[^<>|\"\n]*>[ \t]*")         # of a Windows shell
_PREPARES = re.compile(r"(\.|cd|clear|echo|mkdir|module|pushd|set|sleep|source|ulimit|(conda|mamba) activate)( |$)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_KEY = re.compile(r"\s*(?:-\s+)?[\"']?(?:command|cmd|entrypoint|args)[\"']?\s*:(?=\s)\s*(?:[>|][+-]?[ \t]*(?=\n))?")
_JOIN = re.compile(r"[\\`^][ \t]*\r?\n")             # the end of a line that continues, in three shells
_QUOTED = re.compile(r"\\[\"\\$`]")                     # a sign that a backslash quotes between double quotes
_SINGLE = r"'((?:[^']|'')*)'"
_SINGLE_QUOTED = re.compile(rf"\[\s*{_SINGLE}(?:\s*,\s*{_SINGLE})*\s*\]")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")


class ShellWord(NamedTuple):
    """A word. ``place``: its first character in the command line, from 1; ``variable``: place of a shell variable or
    command substitution in it, or of a placeholder such as ``<port>``, 0 = it has none; ``unset``: variables whose
    defaults stand in the text, so that the word is right if they are not set; ``origin``: file and line from which it
    comes, "" = the command line."""

    text: str
    place: int
    variable: int = 0
    unset: tuple[str, ...] = ()
    origin: str = ""


def shell_words(text: str, start: int) -> list[ShellWord]:
    """Return the words of a command line that begins at a character of a text, and of the lines that set variables
    before it. Raise BadInput for text that is not one simple command."""
    reader = _Reader(text, start)
    while reader.at < len(text):
        reader.step()
    reader.end_word()
    return reader.words


def shell_commands(text: str, start: int) -> list[list[ShellWord]]:
    """Return the words of each command in a list of commands (``a && b; c``) that begins at a character of a text. A
    command has the words of exported variables of those before it. Raise BadInput."""
    reader = _Reader(text, start, is_list=True)
    while reader.at < len(text):
        reader.step()
    reader.end_word()
    return [words for words in (*reader.ended, reader.words) if words] or [[]]


def command_lists(text: str) -> list[list[ShellWord]]:
    """Return the words of the commands in a text: one as ``command_words`` reads it, or a list of commands. Raise
    BadInput."""
    if len(text) > LONGEST or _KEY.match(text) or text.lstrip()[:1] in ("[", "-"):
        return [command_words(text)]
    found = shell_commands(text.rstrip(), len(text) - len(text.lstrip()))
    if sum(map(len, found)) > MOST_WORDS:
        raise BadInput(f"command line: more than {MOST_WORDS:,} words")
    return found


def command_words(text: str) -> list[ShellWord]:
    """Return the words of a command line, or of the value of ``command:`` in a compose file: a string, a list in
    brackets, or a list with a dash before each item. Raise BadInput."""
    if len(text) > LONGEST:
        raise BadInput(f"command line: {len(text):,} characters, at most {LONGEST:,} are allowed")
    start = len(text) - len(text.lstrip())
    found = _KEY.match(text, start)
    body = text[found.end() if found else start :].lstrip()
    start, body = len(text) - len(body), body.rstrip()
    if body.startswith("["):
        words = _list_words(body, start)
    elif all(_ITEM.fullmatch(line) for line in body.splitlines() if line.strip()):
        words = _item_words(text, start)
    elif found and body[:1] in "'\"" and body[-1:] == body[:1] and len(body) > 1:
        words = shell_words(text.rstrip()[:-1], start + 1)
    else:
        words = shell_words(text.rstrip(), start)
    if len(words) > MOST_WORDS:
        raise BadInput(f"command line: {len(words):,} words, at most {MOST_WORDS:,} are allowed")
    return words


def _list_words(body: str, start: int) -> list[ShellWord]:
    """Return the words of a list in brackets, which is JSON, or has its texts in single quotes. Raise BadInput."""
    if _SINGLE_QUOTED.fullmatch(body):
        return [_listed(found[1].replace("''", "'"), start + found.start() + 1)
                for found in re.finditer(_SINGLE, body)]  # fmt: skip
    try:
        items = parse_json(body.encode("utf-8", "replace"))
    except BadInput as bad:
        raise BadInput(f"command line at character {start + 1}: {bad.cause}",
                       hint="a list is written as JSON") from None  # fmt: skip
    if not isinstance(items, list):
        raise BadInput(f"command line at character {start + 1}: expected a list of words")
    for item in items:
        if not isinstance(item, str | int | float) or isinstance(item, bool):
            raise BadInput(f"command line at character {start + 1}: expected a word in the list, found {quoted(item)}")
    return [_listed(str(item), start + 1) for item in items]


def _item_words(text: str, start: int) -> list[ShellWord]:
    """Return the words of a list with a dash before each item. An item is one word, in quotes or without."""
    words = []
    for line in re.finditer(r"[^\n]+", text[start:]):
        found = _ITEM.fullmatch(line[0])
        if not found:
            continue
        item, place = found[1].strip(), start + line.start() + found.start(1) + 1
        if item[:1] in ("'", '"'):
            words += shell_words(text[: place - 1 + len(item)], place - 1)
        else:
            words.append(_listed(item.partition(" #")[0].rstrip(), place))
    return words


def _listed(text: str, place: int) -> ShellWord:
    """Return an item of a list, which no shell expands, but compose does."""
    unset = tuple(dict.fromkeys(found[1] for found in _DEFAULTED.finditer(text)))
    text = _DEFAULTED.sub(lambda found: found[2], text)
    return ShellWord(text, place, place if _VARIABLE.search(text) else 0, unset)


class _Reader:
    """Position in a text, the words before it, and the word that is being read (None between words). ``values``: texts
    of the variables that lines before this one set."""

    def __init__(self, text: str, start: int, is_list: bool = False) -> None:
        self.text = text
        self.is_list = is_list              # several commands are accepted
        self.ended = list[list[ShellWord]]()
        prompt = _PROMPT.match(text, start)
        self.at = prompt.end() if prompt else start
        self.words: list[ShellWord] = []
        self._word: list[str] | None = None
        self._start = 0
        self._variable = 0
        self._unset: tuple[str, ...] = ()   # variables whose defaults the word contains
        self.values: dict[str, str] = {}
        self._line = 0                      # number of words before this line
        self._exported = 0                  # number of words at the beginning that export variables
        self._replaced = 0                  # characters that replaced variables
        self._redirected = 0                # place of a redirection whose file is read next, 0 = none

    def step(self) -> None:
        """Read the next character, quotation or variable. Raise BadInput."""
        sign = self.text[self.at]
        if sign.isspace():
            self.end_word()
            self.at += 1
            if sign == "\n":
                self._end_line()
        elif sign == "#" and self._word is None:
            self.at = (self.text + "\n").index("\n", self.at)
        elif sign == "'":
            self._quotation("'")
        elif sign == '"':
            self._quotation('"')
        elif joined := _JOIN.match(self.text, self.at):
            if sign == "`" or self.text.startswith("-", joined.end()):      # of PowerShell; a blank that was lost
                self.end_word()
            self.at = joined.end()
        elif sign == "\\":
            self._escape()
        elif placeholder := _PLACEHOLDER.match(self.text, self.at):
            self._open(placeholder[0])
        elif sign in "&<>0123456789" and (redirection := self._redirection()):
            self.end_word()
            self._redirected = self.at + 1
            self.at = redirection.end()
        elif not _VARIABLE.match(self.text, self.at) and (operator := _OPERATOR.match(self.text, self.at)):
            self._operator(operator)
        else:
            self._literal()

    def _open(self, text: str) -> None:
        """Read a text that stands for another one."""
        word = self._begin()
        self._variable = self._variable or self.at + 1
        word.append(text)
        self.at += len(text)

    def _redirection(self) -> re.Match[str] | None:
        """Return the redirection that begins here; digits belong to one only at the beginning of a word."""
        is_number = self.text[self.at].isdigit()
        return None if is_number and self._word is not None else _REDIRECTION.match(self.text, self.at)

    def _operator(self, operator: re.Match[str]) -> None:
        """Pass over the operator after a line that sets variables, or after the command. Raise BadInput for another
        one."""
        self.end_word()
        is_last = not self.text[operator.end() :].strip()
        if operator[0] in (";", "&&") and self._end_line():
            self.at = operator.end()
        elif operator[0] == "|" or (operator[0] in ("&", ";") and is_last):
            self.at = len(self.text)
        elif self.is_list and operator[0] in ("&&", "||", ";", "&"):
            self.ended.append(self.words)
            self.words = [word for word in self.words[: self._exported] if _ASSIGNMENT.fullmatch(word.text)]
            self._line = self._exported = len(self.words)
            self.at = operator.end()
        else:
            raise BadInput(f"command line at character {self.at + 1}: {quoted(operator[0])} is shell syntax",
                           hint="paste the command of the server alone")  # fmt: skip

    def _begin(self) -> list[str]:
        if self._word is None:
            self._word = []
            self._start = self.at
            self._variable = 0
            self._unset = ()
        return self._word

    def end_word(self) -> None:
        """End the word, if one is read. The file of a redirection is left out; raise BadInput if it is missing."""
        at_end = self.at >= len(self.text) or self.text[self.at] in "\n|&;<>"
        if self._word is not None and not self._redirected:
            self.words.append(ShellWord("".join(self._word), self._start + 1, self._variable, self._unset))
        if self._word is None and self._redirected and at_end:
            raise BadInput(f"command line at character {self._redirected}: no file follows the redirection")
        if self._word is not None:
            self._redirected = 0
        self._word = None

    def _begins_substitution(self) -> bool:
        """True if a command substitution begins here that is not simple: it has no end, or contains another one."""
        begins = self.text.startswith(("$(", "`"), self.at)
        return begins and not _VARIABLE.match(self.text, self.at)

    def _end_line(self) -> bool:
        """End a line; return True if it sets variables and does nothing else, or if it prepares the shell. The texts of
        variables replace them in later lines. Those that are not exported are no words of the command: its program does
        not see them."""
        line = self.words[self._line :]
        self._line = len(self.words)
        if _PREPARES.match(" ".join(word.text for word in line)):
            del self.words[-len(line) :]
            self._line = len(self.words)
            return True
        is_exported = bool(line) and line[0].text == "export"
        set_here = line[1:] if is_exported else line
        if not set_here or not all(_ASSIGNMENT.fullmatch(word.text) for word in set_here):
            return False
        for word in set_here:
            name, _, value = word.text.partition("=")
            if word.variable:
                self.values.pop(name, None)
            else:
                self.values[name] = value
        if not is_exported:
            del self.words[-len(set_here) :]
            self._line = len(self.words)
        elif self._exported + len(line) == len(self.words):
            self._exported = len(self.words)
        return True

    def _literal(self, is_quoted: bool = False) -> None:
        """Read a character that stands for itself, or a variable. Raise BadInput if values are too long."""
        found = _VARIABLE.match(self.text, self.at)
        defaulted = _DEFAULTED.fullmatch(found[0]) if found else None
        value = self._value_of(found[0]) if found else None
        if defaulted and value is None:
            self._begin()
            self._unset = (*self._unset, defaulted[1])
            value = defaulted[2]
        if found and value is not None:
            self._replaced += len(value)
            if self._replaced > LONGEST:
                raise BadInput(f"command line at character {self.at + 1}: values of variables have more than "
                               f"{LONGEST:,} characters")  # fmt: skip
            self._replace(value, is_quoted)
            self.at = found.end()
            return
        word = self._begin()
        if found and not self._variable:
            self._variable = self.at + 1
        text = found[0] if found else self.text[self.at]
        word.append(text)
        self.at += len(text)

    def _value_of(self, variable: str) -> str | None:
        """Return the text that an earlier line gave a variable, None if none did. ``:-`` also replaces empty text."""
        if defaulted := _DEFAULTED.fullmatch(variable):
            value = self.values.get(defaulted[1])
            return None if value == "" and ":-" in variable else value
        named = _NAMED.fullmatch(variable)
        return self.values.get(named[1] or named[2]) if named else None

    def _replace(self, value: str, is_quoted: bool) -> None:
        """Add the text of a variable; outside of quotation marks blanks in it separate words."""
        if is_quoted:
            self._begin().append(value)
            return
        for part in re.split(r"(\s+)", value):
            if part.isspace():
                self.end_word()
            elif part:
                self._begin().append(part)

    def _escape(self) -> None:
        """Read a backslash outside of quotes: it quotes a sign; before a letter it is part of a Windows path."""
        after = self.text[self.at + 1 : self.at + 2]
        if not after:                        # of a line that was pasted without the next one
            self.at += 1
            return
        word = self._begin()
        word.append(f"\\{after}" if after.isalnum() or after in "._" else after)
        self.at += 2

    def _quotation(self, quote: str) -> None:
        """Read a quotation. Raise BadInput if it has no end."""
        word, place = self._begin(), self.at + 1
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != quote:
            if quote == '"' and self.text.startswith("\\\n", self.at):
                self.at += 2                 # the quotation continues on the next line
            elif quote == '"' and _QUOTED.match(self.text, self.at):
                word.append(self.text[self.at + 1])
                self.at += 2
            elif quote == '"' and self._begins_substitution():
                raise BadInput(f"command line at character {self.at + 1}: expected text, found a command substitution")
            elif quote == '"':
                self._literal(is_quoted=True)
            else:
                word.append(self.text[self.at])
                self.at += 1
        if self.at >= len(self.text):
            raise BadInput(f"command line at character {place}: this quotation mark has no end")
        self.at += 1


__all__ = ["ShellWord", "command_words", "shell_words"]
