"""Writers of trees as JSON or TOML, whatever values they contain; and mutations of bytes."""

from __future__ import annotations

import json

from tests.hostile.nasty import Raw


def to_json(value):
    """Return a value as JSON; Raw texts are written verbatim."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(str(key))}:{to_json(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    return json.dumps(value)


def to_toml(tree):
    """Return a tree as TOML; Raw texts are written verbatim, values that TOML lacks as JSON."""
    if not isinstance(tree, dict):
        return _inline(tree)
    lines = []
    _table(tree, "", lines)
    return "\n".join(lines) + "\n"


def _table(table, path, lines):
    later = []
    for key, value in table.items():
        if value and (isinstance(value, dict) or (isinstance(value, list) and _tables(value))):
            later.append((key, value))
        else:
            lines.append(f"{_key(key)} = {_inline(value)}")
    for key, value in later:
        name = path + _key(key)
        for table_of_list in [value] if isinstance(value, dict) else value:
            lines.append(f"[{name}]" if isinstance(value, dict) else f"[[{name}]]")
            _table(table_of_list, name + ".", lines)


def _tables(values):
    return all(isinstance(one, dict) for one in values)


def _key(key):
    return key if key.isascii() and key.replace("_", "").isalnum() else _string(key)


def _inline(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _string(text):
    signs = json.dumps(str(text), ensure_ascii=False)
    return signs.replace("\x7f", "\\u007F")


def flipped(data, rng):
    """Return the bytes after 1 to 3 random changes: flipped bits, deletions, insertions, repetitions."""
    data = bytearray(data)
    for _ in range(rng.choices((1, 2, 3), (6, 3, 1))[0]):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 8, 100)))
        how = rng.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del data[at:end]
        elif how == 2:
            data[at:at] = rng.choice(SIGNS)
        elif how == 3:
            data[at:at] = data[at:end] * rng.choice((1, 10, 1000))
        elif how == 4:
            data[at:end] = bytes(rng.choice(b'0123456789"[]{}.,:=-+eE \n#') for _ in range(end - at))
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


SIGNS = (
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r\n", b"\n", b"[" * 100, b"{" * 5000, b'"', b"'''", b"-",
    b"9" * 20, b"#", b"\\", b"\x1b[2J", "\u202e".encode(), b"e999", b".", b",", b"=", b"[[request]]\n", b"a." * 5000,
)  # fmt: skip
