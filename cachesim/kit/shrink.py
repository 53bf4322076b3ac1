"""How does a history that was not drawn become smaller? Requests and tokens are left out while it still breaks.

It works on the one-line text, whatever the history came from: drawn, from the corpus, or from the user.
"""

from __future__ import annotations

import re
from typing import Callable, Iterable, Iterator

from cachesim.errors import BadInput
from cachesim.kit.history import History, of_line

_WORD = re.compile(r"([A-Za-z_]+)([0-9]*)")
_PIECE = re.compile(r"([A-Za-z_]+)[0-9]*(\[[0-9]*:[0-9]*\])?")


def shrink(history: History, breaks: Callable[[History], bool]) -> History:
    """The smallest history that still breaks and that no single step makes smaller."""
    found: History | None = history
    while found is not None:
        history = found
        found = next((one for one in _smaller(history.line) if breaks(one)), None)
    return next((one for one in _histories([_renamed(_short(history.line))]) if breaks(one)), history)


def _smaller(line: str) -> Iterator[History]:
    """Histories with a request less, a word less, a shorter word, a simpler request."""
    line = _short(line)
    yield from _histories([*_fewer_requests(line), *_fewer_words(line), *_shorter_words(line), *_simpler(line)])


def _histories(lines: Iterable[str]) -> Iterator[History]:
    """What the lines stand for. One that is no history is left out: a slice beyond its word, a request without one."""
    for text in lines:
        try:
            yield of_line(_long(text))
        except BadInput:
            continue


def _fewer_requests(line: str) -> Iterator[str]:
    texts = line.split("/")
    for k in range(len(texts)):
        yield _sized("/".join(texts[:k] + texts[k + 1 :]), _sizes(line))


def _fewer_words(line: str) -> Iterator[str]:
    """Without one word, everywhere or at one place."""
    for word in _sizes(line):
        yield _sized(_dropped(line, lambda match, word=word: match[1] == word), _sizes(line))   # type: ignore[misc]
    for at in [match.start() for match in _PIECE.finditer(line)]:
        yield _sized(_dropped(line, lambda match, at=at: match.start() == at), _sizes(line))    # type: ignore[misc]


def _dropped(line: str, gone: Callable[[re.Match[str]], bool]) -> str:
    left = _PIECE.sub(lambda match: "" if gone(match) else match[0], line)
    left = re.sub(r"\.{2,}", ".", left)
    return re.sub(r">(?=[/!@^&]|$)", "", re.sub(r"(?<![A-Za-z0-9_\]])\.|\.(?=[/>!@^&]|$)", "", left))


def _shorter_words(line: str) -> Iterator[str]:
    """With one word shorter, its slices as they are or shorter by as much."""
    sizes = _sizes(line)
    for word, text in sizes.items():
        for less in sorted({1, int(text) // 2, int(text) - 1} - {0, int(text)}):
            shorter = {**sizes, word: str(less)}
            yield _sized(line, shorter)
            by = int(text) - less
            yield _sized(_PIECE.sub(lambda match: _cut(match, word, by), line), shorter)        # noqa: B023


def _cut(match: re.Match[str], word: str, by: int) -> str:
    if match[1] != word or not match[2]:
        return match[0]
    return re.sub("[0-9]+(?=])", lambda stop: str(int(stop[0]) - by), match[0])


def _simpler(line: str) -> Iterator[str]:
    """Without a slot, a mark, a slice, a request for no cache, a hang-up, an answer; sent alone."""
    for match in re.finditer(r"@[0-9]+|\||\[[0-9:]*\]|!|>[^/!@^&]*|\^[0-9]+|&", line):
        yield line[: match.start()] + line[match.end() :]
        if match[0][0] == "^" and match[0] != "^0":
            yield line[: match.start()] + "^0" + line[match.end() :]


def _sizes(line: str) -> dict[str, str]:
    return {match[1]: match[2] for match in _WORD.finditer(line) if match[2]}


def _sized(line: str, sizes: dict[str, str]) -> str:
    """The line with the length of every word at its first use."""
    seen: set[str] = set()

    def first(match: re.Match[str]) -> str:
        size = "" if match[1] in seen else sizes[match[1]]
        seen.add(match[1])
        return match[1] + size

    return _WORD.sub(first, line)


def _short(line: str) -> str:
    """The line with signs in place of braces: ``^0`` for a hang-up, ``&`` for together."""
    def signs(braces: re.Match[str]) -> str:
        return braces[1].replace("cancel_after=", "^").replace("together", "&").replace(" ", "")

    return re.sub(r"\{([^}]*)\}", signs, line)


def _long(line: str) -> str:
    marked = re.sub(r"\^([0-9]+)&", r"{cancel_after=\1 together}", line)
    return re.sub(r"\^([0-9]+)", r"{cancel_after=\1}", marked).replace("&", "{together}")


def _renamed(line: str) -> str:
    """Words called A, B, C, and answers by the small letter of their request."""
    names: dict[str, str] = {}
    for number, text in enumerate(line.split("/")):
        prompt, _, answer = text.partition(">")
        for match in _WORD.finditer(prompt):
            names.setdefault(match[1], chr(ord("A") + len([name for name in names.values() if name.isupper()]) % 26))
        for match in _WORD.finditer(answer):
            names.setdefault(match[1], chr(ord("a") + number % 26))
    return _WORD.sub(lambda match: names[match[1]] + match[2], line)
