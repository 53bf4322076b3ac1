"""Mutated headers of GGUF files: keys, types, counts, lengths, nested lists, and truncated files."""

from __future__ import annotations

import json
import struct
from functools import cache

from tests.hostile.mutant import Mutant
from tests.hostile.nasty import INTEGERS, TEXTS
from tests.hostile.templates import CHATML, bent_template, bodies_to_import
from tests.hostile.trees import jumbled
from tests.hostile.written import flipped

UINT8, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 0, 4, 5, 6, 7, 8, 9, 10
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
SOFT = 0.6                   # share of headers that are well formed
MANY = 100_000               # elements of a long list
COMMANDS = (
    ("import", "b.json", "--template", "x.gguf"), ("import", "b.json", "--tokenizer", "x.gguf"),
    ("import", "b.json", "--template", "x.gguf", "--tokenizer", "x.gguf"),
    ("advise", "S9.A20/S.B9/S.A", "--sizes", "x.gguf", "--model", "GA", "--seconds", "1"),
    ("verify", "A5/A", "--server", "/bin/true", "--model", "x.gguf", "-p", "llama_cpp@b11549"),
)


@cache
def alphabet():
    """Return the characters for the 256 bytes in a byte-level vocabulary. Source: GPT-2, bytes_to_unicode."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [n for n in range(256) if n not in plain]
    found = {**{n: chr(n) for n in plain}, **{n: chr(256 + i) for i, n in enumerate(rest)}}
    return [found[n] for n in range(256)]


MERGES = ("t h", "th e", "r e", "a d", "re ad", "o n")


def vocabulary():
    """Return tokens, merges and token types of a byte-level vocabulary."""
    tokens = [*alphabet(), *("".join(one.split()) for one in MERGES), "<|im_start|>", "<|im_end|>"]
    return tokens, list(MERGES), [1] * (len(tokens) - 2) + [3, 3]


def fields(rng):
    """Return the keys of a header: [name, type, value]; the value of a list is (type, values)."""
    tokens, merges, kinds = vocabulary()
    arch = rng.choice(("qwen2", "llama", "gemma3"))
    sizes = (("block_count", 4), ("embedding_length", 64), ("attention.head_count", 4), ("attention.head_count_kv", 2),
             ("attention.key_length", 16), ("attention.sliding_window", 64), ("context_length", 1024))  # fmt: skip
    return [
        ["general.architecture", STRING, arch], *([f"{arch}.{name}", UINT32, n] for name, n in sizes),
        ["general.name", STRING, "tiny"], ["tokenizer.ggml.model", STRING, "gpt2"],
        ["tokenizer.ggml.pre", STRING, rng.choice(("qwen2", "llama-bpe", "gpt-2"))],
        ["tokenizer.ggml.tokens", ARRAY, (STRING, tokens)], ["tokenizer.ggml.token_type", ARRAY, (INT32, kinds)],
        ["tokenizer.ggml.merges", ARRAY, (STRING, merges)], ["tokenizer.chat_template", STRING, CHATML],
    ]  # fmt: skip


class Writer:
    """Bytes of a header. ``places``: offset and size of every count, length and type."""

    def __init__(self):
        self.data, self.places = bytearray(b"GGUF"), []

    def word(self, form, value):
        """Write a number that a mutation may replace."""
        self.places.append((len(self.data), struct.calcsize(form)))
        self.data += struct.pack("<" + form, value & (256 ** struct.calcsize(form) - 1))

    def text(self, value):
        """Write a string with its length."""
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        self.word("Q", len(data))
        self.data += data

    def value(self, kind, value):
        """Write a value of a type."""
        if kind == STRING:
            self.text(value)
        elif kind == ARRAY:
            inner, values = value if isinstance(value, tuple) else (UINT32, [])
            self.word("I", inner)
            self.word("Q", len(values))
            for one in values:
                self.value(inner, one)
        else:
            form = FORMATS.get(kind, "I")
            number = value if isinstance(value, (int, float)) else 1
            size = 8 * struct.calcsize(form)
            self.data += struct.pack("<" + form, float(number) if form in "fd" else int(number) % 2 ** (size - 1))


def header(keys, version=3):
    """Return the writer of a header with these keys and no tensors."""
    out = Writer()
    out.word("I", version)
    out.word("Q", 0)
    out.word("Q", len(keys))
    for name, kind, value in keys:
        out.text(name)
        out.word("I", kind)
        out.value(kind, value)
    return out


def _changed(key, rng):
    """Give a key another value or type."""
    how = rng.randrange(7)
    if how == 0:
        key[1:] = [STRING, rng.choice(TEXTS)]
    elif how == 1:
        key[1:] = [rng.choice((UINT8, UINT32, UINT64, BOOL, INT32, FLOAT32)), rng.choice(INTEGERS) % 2**63]
    elif how == 2:                               # lists of lists
        value = (UINT32, [1, 2])
        for _ in range(rng.choice((1, 3, 60, 900))):
            value = (ARRAY, [value])
        key[1:] = [ARRAY, value]
    elif how == 3:
        lists = ((STRING, [""] * MANY), (UINT8, [0] * MANY), (STRING, ["x"] * 10), (FLOAT32, [1.5] * 9))
        key[1:] = [ARRAY, rng.choice(lists)]
    elif how == 4 and isinstance(key[2], tuple) and key[2][1]:
        values = list(key[2][1])
        if (i := jumbled(values, rng)) is not None:
            values[i] = rng.choice(TEXTS) if key[2][0] == STRING else rng.choice(INTEGERS)
        key[2] = (key[2][0], values)
    elif how == 5:
        key[0] = rng.choice((*TEXTS, "tokenizer.ggml.tokens", "general.alignment", "general.architecture"))
    else:
        key[2] = bent_template(rng) if key[1] == STRING and "template" in key[0] else key[2]


def _soften(keys, rng):
    """Give a number another value, or drop or repeat a token."""
    numbers = [key for key in keys if key[1] == UINT32]
    if rng.random() < 0.7:
        key = rng.choice(numbers)
        key[2] = rng.choice((key[2], key[2] * 2, key[2] + 1, max(1, key[2] // 2), rng.randrange(200)))
    else:
        keys.remove(rng.choice([key for key in keys if key[1] != ARRAY][1:]))


def bent_header(rng):
    """Return the bytes of a header after 1 to 3 changes."""
    keys = fields(rng)
    if rng.random() < SOFT:
        _soften(keys, rng)
        return bytes(header(keys).data)
    for _ in range(rng.choices((0, 1, 2, 3), (3, 5, 2, 1))[0]):
        if rng.random() < 0.3:
            jumbled(keys, rng)
        else:
            _changed(rng.choice(keys), rng)
    out = header(keys, rng.choice((1, 0, 4, 2**31, 3 << 24)) if rng.random() < 0.05 else rng.choice((3, 2)))
    data = out.data
    for _ in range(rng.choices((0, 1, 2), (6, 5, 1))[0]):
        offset, size = rng.choice(out.places[1:3] if rng.random() < 0.2 else out.places)
        value = rng.choice((*INTEGERS, 2**62, 2**61, 2**40, 9, 8, 13, 14)) % 256**size
        data[offset : offset + size] = value.to_bytes(size, "little")
    if rng.random() < 0.15:
        data = data[: rng.randrange(len(data) + 1)]
    return flipped(bytes(data), rng) if rng.random() < 0.15 else bytes(data)


def gguf(rng, number):
    """Return a command that reads a mutated GGUF header."""
    argv = list(rng.choice(COMMANDS))
    files = {"x.gguf": bent_header(rng)}
    if "b.json" in argv:
        texts = json.dumps([{"prompt": "read the file"}, {"prompt": "read the other <|im_end|> file"}]).encode()
        files["b.json"] = bodies_to_import(rng) if "--template" in argv else texts
    return Mutant("gguf", number, tuple(argv), files)
