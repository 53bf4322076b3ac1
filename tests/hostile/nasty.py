"""Values that break readers: integer limits, invalid numbers, and long, deeply nested or unusual texts."""

from __future__ import annotations


class Raw(str):
    """Text that is written into a file verbatim, not as a string."""


class Again(str):
    """Duplicate key: a string that is not equal to an equal string, so that a dict can hold both."""

    __hash__ = object.__hash__

    def __eq__(self, value):
        return self is value


INTEGERS = (
    0, -1, 1, 2, 3, 7, 64, 65, 256, 257, 1000, 4096, 65_536, 1_000_000, 1_000_001, 10**9, 2**31 - 1, 2**31, -(2**31),
    -(2**31) - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30,
)  # fmt: skip
NUMBERS = (
    0.0, -0.0, 0.5, 1.0, 40.0, -1.5, 1e-320, 1e308,
    Raw("1e999"), Raw("-1e999"), Raw("NaN"), Raw("nan"), Raw("Infinity"), Raw("inf"), Raw("0x7f"), Raw("1_000"),
    Raw("9" * 4301), Raw("-" + "9" * 5000), Raw("0." + "1" * 400), Raw("007"), Raw("+1"), Raw("1e5"),
)  # fmt: skip
TEXTS = (
    "", " ", ".", "..", "/", "../x", "/dev/zero", "x" * 300, "x" * 100_000,
    "\x00", "a\x00b", "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07", "line\nline", "tab\tand\rreturn", "\u202eright to left", "\u2028", "\ufeff", "💥" * 50, "é",
    "%s%n%d",
    "{}", "{0!r}", "${HOME}", "$(true)", "'; drop", "\\", '"', "true", "-1", "NaN", "null",
    "None", "llama_cpp@b10587", "b10587",
    "GGGA", "A" * 65, "S", "\x7f", "\u0661\u0662", "1e999", "a" * 255, "é" * 200,
)  # fmt: skip
SURROGATE = Raw('"\\ud800"')
OTHERS = (
    None, True, False, [], {}, [[]], [{}], {"": 0}, [None], [0] * 1000, ["x"] * 100, {"x" * 1000: 1},
    {"\x1b[2J": 0},
    Raw("[" * 31 + "]" * 31), Raw("[" * 40 + "]" * 40), Raw("[" * 5000 + "]" * 5000), Raw("[" * 5000), SURROGATE,
    Raw('{"a":' * 40 + "1" + "}" * 40), Raw('"\\"' * 3000), Raw("'''"), Raw("2026-11-21"), Raw("2026-11-21T02:15:00Z"),
)  # fmt: skip



def _word(text):
    """True if a text can be an argument, and is not a folder that takes long to search."""
    return "\0" not in text and len(text) < 100_000 and text not in ("/", "..")


_MORE = ("--", "-", "-h", "--version", "--json=1", "\udcff", "=", "a=b", "@", "y" * 20_000)
WORDS = tuple(text for text in (*TEXTS, *map(str, INTEGERS), *_MORE) if _word(text))
"""Arguments of a command line."""


def nasty(rng):
    """Return a random value of all tables."""
    table = rng.choices((INTEGERS, NUMBERS, TEXTS, OTHERS), (4, 3, 4, 3))[0]
    value = rng.choice(table)
    return list(value) if isinstance(value, list) else dict(value) if isinstance(value, dict) else value
