"""How does a history that was not drawn become smaller? Requests and tokens are left out while it still breaks.

What Hypothesis draws it also shrinks; this is for lines of the corpus and of the user, and for the last step of both.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator

from cachesim.errors import BadInput
from cachesim.kit.history import History, of_scenario
from cachesim.scenarios.notation import from_line

_WORD = re.compile(r"([A-Za-z_]+)([0-9]*)")
_SIZED = re.compile(r"[A-Za-z_]+([0-9]+)")


def shrink(history: History, breaks: Callable[[History], bool]) -> History:
    """The smallest history that still breaks and that no single step makes smaller. One with signs that the notation
    lacks stays as it is."""
    found = next((one for one in _smaller(history.line) if breaks(one)), None)
    while found is not None:
        history = found
        found = next((one for one in _smaller(history.line) if breaks(one)), None)
    return history


def _smaller(line: str) -> Iterator[History]:
    """Histories with a request less, a shorter word, a word less, a shorter answer."""
    if "{" in line:
        return
    for text in (*_fewer_requests(line), *_shorter_words(line), *_fewer_words(line), *_plainer(line)):
        try:
            yield of_scenario(from_line(text))
        except BadInput:                   # a slice beyond its word, nothing left
            continue


def _fewer_requests(line: str) -> Iterator[str]:
    texts = line.split("/")
    sizes = _sizes(line)
    for k in range(len(texts)):
        yield _sized("/".join(texts[:k] + texts[k + 1 :]), sizes)


def _sizes(line: str) -> dict[str, str]:
    return {match[1]: match[2] for match in _WORD.finditer(line) if match[2]}


def _sized(line: str, sizes: dict[str, str]) -> str:
    """The line with the length of every word at its first use."""
    bare = re.sub(_WORD, lambda match: match[1], line)
    seen: set[str] = set()

    def first(match: re.Match[str]) -> str:
        size = "" if match[0] in seen else sizes[match[0]]
        seen.add(match[0])
        return match[0] + size

    return re.sub("[A-Za-z_]+", first, bare)


def _shorter_words(line: str) -> Iterator[str]:
    for match in _SIZED.finditer(line):
        size = int(match[1])
        for less in sorted({1, size // 2, size - 1}):
            if 0 < less < size:
                yield line[: match.start(1)] + str(less) + line[match.end(1) :]


def _fewer_words(line: str) -> Iterator[str]:
    sizes = _sizes(line)
    for match in re.finditer(r"(?<=\.)[^./>!@]+|[^./>!@]+\.", line):
        left = line[: match.start()].removesuffix(".") if line[match.start() - 1] == "." else line[: match.start()]
        yield _sized(left + line[match.end() :], sizes)


def _plainer(line: str) -> Iterator[str]:
    """Without a slot, a mark, a slice, a request for no cache, or the name of an answer."""
    for match in re.finditer(r"@[0-9]+|\||\[[0-9:]*\]|!|>[^/!@]*", line):
        yield line[: match.start()] + line[match.end() :]
