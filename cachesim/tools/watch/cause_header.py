"""Response header ``x-cachesim-cause``: what the comparison of a request's body found, before its reply begins.

A head is changed only if all of it arrived at once, after the whole request. Its other bytes, and all other bytes of
the connection, stay unchanged.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

NAME = b"x-cachesim-cause"
LONGEST = 200                # characters of the value, at most
_UNPRINTABLE = re.compile(r"[^ -~]")
_HEAD = re.compile(rb"HTTP/1\.[01] [2-5]\d\d[ \r]")


def header_value(row: Mapping[str, Any]) -> bytes:
    """Return the value for a compared request: printable ASCII characters, at most ``LONGEST``."""
    parts = [str(row["cause"])]
    if row.get("byte_at_least") is not None and not row["harmless"]:
        byte = f"{row['byte_at_least']} or later" if row["byte"] is None else str(row["byte"])
        parts += [f"byte {byte}", *([f"{row['path']}"] if row.get("path") else []), str(row["says"])]
    return _UNPRINTABLE.sub("?", "; ".join(parts))[:LONGEST].rstrip().encode()


def with_header(data: bytes, value: bytes) -> bytes:
    """Return the first bytes of a reply with the header after all others; unchanged if they are not a whole head, or
    if a line of it does not end with CR LF: readers differ on where such a head ends."""
    end = data.find(b"\r\n\r\n")
    if not value or end < 0 or not _HEAD.match(data) or not _has_strict_lines(data[:end]):
        return data
    return data[:end] + b"\r\n" + NAME + b": " + value + data[end:]


def _has_strict_lines(head: bytes) -> bool:
    """True if CR and LF occur only together."""
    return head.count(b"\r\n") == head.count(b"\r") == head.count(b"\n")
