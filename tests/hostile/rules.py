"""Mutated rules files: lines, words and bytes are changed. The files are Python code that runs, so the inserted pieces
do not wait, loop or access the network; the process is limited anyway."""

from __future__ import annotations

import re

from tests.hostile.trees import jumbled
from tests.hostile.written import flipped

B10587 = """from dataclasses import replace
from cachesim.engines.llama_cpp.profiles import NEWEST, PROFILES
from cachesim.engines.rule import Decision, Role, rule

B = PROFILES[NEWEST]
"""
PICK = '''
@rule("MY-PICK", Role.PICK, "an idea of mine")
def pick(ckpts, ask, thold) -> Decision:
    """The newest checkpoint that ends before the common prefix does. Value: its number."""
    fits = [i for i, one in enumerate(ckpts) if one.n_tokens <= ask.n_past]
    return Decision(fits[-1] if fits else None, {"n_past": ask.n_past})

MINE = replace(B, name="llama_cpp@mine", ckpt_pick=pick)
'''
OTHER = """
OTHER = MINE.changed({"name": "llama_cpp@other"})
"""
FILES = (B10587 + PICK, B10587 + PICK + OTHER, B10587 + 'MINE = replace(B, name="llama_cpp@mine")\n')
PIECES = (
    "None", "0", "-1", "10**30", "0.5", "'x'", "''", "[]", "{}", "()", "object()", "1/0", "True", "lambda *_: 0", "B",
    "Decision(0, {})", "Decision(None, {})", "raise KeyError", "return", "yield", "pass",
    "import nothing", "exit(3)", "raise SystemExit", "'y' * 9999", "\\d",
    "'llama_cpp@b10587'", "'no engine'", "'\\x00'", "Role.EVICT", "'" + "n" * 500 + "'", "raise ValueError('v' * 9999)",
    "raise ValueError('a\\nb')", "(" * 300, "-" * 9000 + "1", "rule", "del B", "global B", "é", "async def f(): pass",
)  # fmt: skip
_WORD = re.compile(r"[\w@']+|[^\w\s]")
DECIDED = ("fits[-1] if fits else None", "fits[0] if fits else None", "None", "len(fits) - 1", "-1", "0", "10**9",
           "'x'", "True", "[0]", "fits", "1.5", "10**30", "float('nan')", "object()")  # fmt: skip
FACTS = ('{"n_past": ask.n_past}', "{}", '{"a": None}', '{"a": ckpts}', '{"\\x1b": 1}', '{"a" * 999: 10**30}', '{1: 2}')
CONDITIONS = ("one.n_tokens <= ask.n_past", "True", "one.n_tokens < ask.n_past", "i % 2", "one.pos_max < 5", "1 / 0",
              "one.no_such_field", "thold > 3")  # fmt: skip
SOFT = 0.65                  # share of the mutants that are valid Python
FLIPPED = 0.3                # share of the mutants with changed bytes


def bent_rules(rng):
    """Return a rules file after 1 to 3 changes."""
    text = rng.choice(FILES)
    if rng.random() < SOFT:
        return _sound(text, rng).encode()
    if rng.random() < FLIPPED:
        return flipped(text.encode(), rng)
    for _ in range(rng.choices((1, 2, 3), (6, 3, 1))[0]):
        text = rng.choice((_word, _word, _word, _line))(text, rng)
    return text.encode()


def _sound(text, rng):
    """Return a rules file that is valid Python, with another decision or other numbers about it."""
    value = rng.choice(DECIDED)
    facts = rng.choice(FACTS)
    text = text.replace("fits[-1] if fits else None", value).replace('{"n_past": ask.n_past}', facts)
    return text.replace("one.n_tokens <= ask.n_past", rng.choice(CONDITIONS))


def _word(text, rng):
    """Replace a word by another word of the file or by a piece of code."""
    words = [*_WORD.finditer(text)]
    if not words:
        return text
    at = rng.choice(words)
    put = rng.choice(PIECES) if rng.random() < 0.6 else rng.choice(words)[0]
    return text[: at.start()] + put + text[at.end() :]


def _line(text, rng):
    """Drop, repeat or swap lines, or insert a piece of code as a line."""
    lines = text.split("\n")
    i = jumbled(lines, rng)
    if i is not None:
        lines.insert(i, re.match(" *", lines[i])[0] + rng.choice(PIECES))
    return "\n".join(lines)
