"""Bodies of requests whose images are replaced by their first bytes and a digest, for the first byte that differs.

An image is a long text in a body that contains neither white space nor other letters than ASCII's: base64, or a data
URL. All APIs and unknown fields are treated alike.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from hashlib import blake2b
from typing import NamedTuple

from cachesim.base.tokens import common_prefix
from cachesim.tools.watch.held_bytes import OBJECT, bytes_of

LONG = 4_096                 # bytes of a text that is replaced, at least
FIRST, DIGEST = 1_024, 16    # bytes of it that stay, and bytes of the digest of the others
_IMAGE = re.compile(rb'(?<=")[!#-~]{%d,}+(?=")' % LONG)


class FirstDifference(NamedTuple):
    """First byte at which two bodies differ. ``is_exact``: False if it is this byte or a later one of an image."""

    byte: int
    is_exact: bool


class ShortenedBody:
    """Body with short images."""

    def __init__(self, raw: bytes) -> None:
        self._digests: list[int] = []        # places of the digests in the data
        self._removed: list[int] = []        # bytes that the images up to this one have lost
        self._data = _IMAGE.sub(self._shorten, raw) if len(raw) > LONG else raw

    def _shorten(self, found: re.Match[bytes]) -> bytes:
        """Return what stands for an image. A long text with escaped letters is not one."""
        if b"\\u" in found[0]:
            return found[0]
        place, end = found.start() + FIRST, found.end()
        before = self._removed[-1] if self._removed else 0
        self._digests.append(place - before)
        self._removed.append(before + end - place - DIGEST)
        rest = memoryview(found.string)[place:end]
        return found.string[found.start() : place] + blake2b(rest, digest_size=DIGEST).digest()

    @property
    def memory(self) -> int:
        """Bytes that this object takes."""
        return bytes_of([self._data, self._digests, self._removed]) + OBJECT

    def difference(self, body: ShortenedBody) -> FirstDifference:
        """Return the first difference from a body."""
        common = common_prefix(self._data, body._data)
        for one in (self, body):
            number = bisect_right(one._digests, common) - 1
            if number >= 0 and common < one._digests[number] + DIGEST:
                before = one._removed[number - 1] if number else 0
                return FirstDifference(one._digests[number] + before, False)
        number = bisect_right(self._digests, common) - 1
        return FirstDifference(common + (self._removed[number] if number >= 0 else 0), True)
