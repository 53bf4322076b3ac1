"""Classification of the text at the first difference of two prompts: date, id, billing header, listing, counter or
white space.

A pattern counts only if it matches different texts at that position on both sides.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

AROUND, CONTEXT = 120, 600   # characters around the difference; characters before it that may contain a heading
DATE = "date"
ID = "id"
BILLING = "billing header"
LISTING = "listing"
COUNTER = "counter"
SPACE = "whitespace"

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATES = (
    r"\d{4}-\d{2}-\d{2}(?:[T _]\d{2}[:.]?\d{2}(?:[:.]?\d{2}(?:[.,]\d+)?)?)?(?:Z|[+-]\d{2}:?\d{2})?",
    r"(?<![\d.])(?:\d{4}[/.]\d{1,2}[/.]\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{4}|\d{1,2}/\d{1,2}/\d{2})(?!\.?\d)",
    r"\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?\s?(?:[AaPp]\.?[Mm])?",
    rf"{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?",
    rf"\d{{1,2}}(?:st|nd|rd|th|\.)? {_MONTH}(?:,? \d{{4}})?",
    r"\d{4}年\d{1,2}月\d{1,2}日",
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day",
    r"(?<!\d)1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?(?!\d)",
)
_NAMES = r"nonce|cache_?bust\w*|cb|salt|seed|(?:[\w-]*[_-])?id|token|hash|cch"
_IDS = (
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    r"(?<![A-Za-z])(?:req|request|msg|message|call|chatcmpl|toolu|run|sess|session|trace|resp|gen|conv|thread|user|id)"
    r"[-_:](?=[\w-]*\d)[\w-]{4,}",                                      # with a digit: "user-friendly" is a word
    rf"(?<![A-Za-z])(?:(?i:{_NAMES}|random)|[a-z]\w*I[dD])[\"']?\s{{0,2}}[:=]\s{{0,2}}[\"']?[\w.-]+",
    rf"(?<![A-Za-z])(?i:{_NAMES})\W{{1,4}}(?=[\w.-]*\d)[\w.-]+",
    r"(?<!\w)(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[0-9a-fA-F]{5,}(?!\w)",
    r"(?<!\w)(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[\w-]{12,}(?!\w)",
    r"(?<!\d)\d{8,}(?!\d)",
)
_LISTING = re.compile(
    r"git ?status|current branch|recent commits|main branch|working (directory|tree)|directory (structure|listing)|"
    r"file (tree|list)|project (layout|structure)|files? in [^\n]{0,80}:|visible files|open tabs|environment_details|"
    r"<env>", re.I)  # fmt: skip
_COUNTED = re.compile(
    r"token|usage|cost|\$|remaining|\bused\b|%|context|\bturns?\b|\bsteps?\b|iteration|messages", re.I)
_NUMBER = (r"\d[\d,. ]*k?",)


def kind_of_change(a: str, b: str, at: int, begin: int = 0) -> str:
    """Return the kind of the text at character ``at`` of two texts that are equal before it; "" if unknown. ``begin``:
    start of its message, because a heading in another message says nothing about it."""
    low = max(0, at - AROUND)
    x = a[low : at + AROUND]
    y = b[low : at + AROUND]
    place = at - low
    line = x.rfind("\n", 0, place) + 1
    if "x-anthropic-" in x[line : place + 1] or re.search(r"\bcch=\w*\Z", x[line:place]):
        return BILLING
    for kind, patterns in ((DATE, _DATES), (ID, _IDS)):
        if any(_both(pattern, x, y, place) for pattern in patterns):
            return kind
    if _both(_NUMBER[0], x, y, place) and _COUNTED.search(x[max(line, place - 60) : place + 30]):
        return COUNTER
    return LISTING if _LISTING.search(a[max(begin, at - CONTEXT) : at + 40]) else ""


class ChangedValue(NamedTuple):
    """Value that differs in two texts: its first character, and the character after it in each text."""

    start: int
    old_stop: int
    new_stop: int


def changed_value(kind: str, a: str, b: str, at: int) -> ChangedValue | None:
    """Return the date, id or counter at character ``at`` of two texts that are equal before it; None if both texts have
    no such value that begins at the same character."""
    patterns = {DATE: _DATES, ID: _IDS, COUNTER: _NUMBER}[kind]
    for pattern in patterns:
        old, new = ([found for found in re.finditer(pattern, text) if found.start() <= at <= found.end()]
                    for text in (a, b))  # fmt: skip
        for before in old:
            for after in new:
                if before[0] != after[0] and before.start() == after.start():
                    return ChangedValue(before.start(), before.end(), after.end())
    return None


def differs_in_space_only(a: str, b: str) -> bool:
    """True if two texts differ in white space only."""
    return a != b and "".join(a.split()) == "".join(b.split())


def _both(pattern: str, a: str, b: str, at: int) -> bool:
    """True if a pattern matches different texts at this position on both sides."""
    in_a = list(_at(pattern, a, at))
    return bool(in_a) and any(match not in in_a for match in _at(pattern, b, at))


def _at(pattern: str, text: str, at: int) -> Iterator[str]:
    """Yield the matches of a pattern that contain or touch the position."""
    return (found[0] for found in re.finditer(pattern, text) if found.start() <= at <= found.end())
