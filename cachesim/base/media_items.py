"""Items of images in token lists. An image is a stretch of consecutive items, one for each of its embeddings.

An item is a number above all token ids and below 2**63. It contains a digest of the image's id, the number of items and
of positions of the image, and its own index, so that lists with images are compared, cut and saved like other lists.
A model with 2-D positions gives all items of an image the position of its first item; the text after it continues
``n_pos`` positions later.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.base.tokens import Tokens

FIRST = 2**62                # items are this number or larger
IDS = 2**63                  # and smaller than this one
FIELD = 13                   # bits of an index, of a number of items and of a number of positions
MOST = 2**FIELD - 1          # items of an image
_DIGEST = 62 - 3 * FIELD     # bits of the digest of an id


class MediaItem(NamedTuple):
    """Parts of an item: its number in the image, from 0, and the items and positions of the image."""

    number: int
    n_tokens: int
    n_pos: int


def image_items(name: str, n_tokens: int, n_pos: int) -> Tokens:
    """Return the items of an image with this id. Raise BadInput."""
    if not 1 <= n_pos <= n_tokens <= MOST:
        raise BadInput(f"image {quoted(name)}: expected 1 to {MOST} tokens and at most as many positions")
    digest = 0
    for byte in name.encode():
        digest = (digest ^ byte) * 0x100000001B3 & 2**64 - 1            # FNV-1a
    digest = (digest ^ digest >> 32) * 0x9E3779B97F4A7C15 & 2**64 - 1   # the names of short words differ in low bits
    first = FIRST | (digest >> 64 - _DIGEST) << 3 * FIELD | n_tokens << 2 * FIELD | n_pos << FIELD
    return tuple(range(first, first + n_tokens))


def is_item(token: int) -> bool:
    """True if a token of a list is an item of an image."""
    return FIRST <= token < IDS


def exchanged(item: int, key: int) -> int:
    """Return the item with this index of another image of equal size, which depends on the image and on a 64-bit
    key."""
    return item ^ key >> 64 - _DIGEST << 3 * FIELD


def item_at(tokens: Sequence[int], index: int) -> MediaItem | None:
    """Return the parts of the item at an index of a list, None for a token and after the end of the list."""
    if not 0 <= index < len(tokens) or not is_item(tokens[index]):
        return None
    item, mask = int(tokens[index]), MOST
    return MediaItem(item & mask, item >> 2 * FIELD & mask, item >> FIELD & mask)


def next_image(tokens: Sequence[int], start: int, stop: int) -> int:
    """Return the index of the first item of an image from ``start`` on, ``stop`` if none is before it."""
    return next((i for i in range(start, stop) if tokens[i] >= FIRST), stop)


def count_images(tokens: Sequence[int]) -> int:
    """Return the number of images in a list."""
    return sum(token & MOST == 0 for token in tokens if is_item(token))


def longest_image(tokens: Sequence[int]) -> int:
    """Return the number of items of the longest image in a list, 0 without images."""
    return max((token >> 2 * FIELD & MOST for token in tokens if is_item(token)), default=0)


def ends_at_image(tokens: Sequence[int], n: int) -> bool:
    """True if the first ``n`` tokens of a list end inside an image, or are the whole list and end with an image."""
    inside = item_at(tokens, n)
    return inside.number > 0 if inside else n == len(tokens) > 0 and is_item(tokens[-1])


def before_image(tokens: Sequence[int], index: int) -> int:
    """Return the index, or that of the image's first item if the index is inside an image."""
    inside = item_at(tokens, index)
    return index - inside.number if inside else index


def position(tokens: Sequence[int], index: int) -> int:
    """Return the position of an item or token of a list, or of the token after its end, with 2-D positions."""
    inside = item_at(tokens, index)
    end = len(tokens)
    spared, at = 0, next_image(tokens, 0, end)
    while at < index and (image := item_at(tokens, at)) is not None and at + image.n_tokens <= index:
        spared += image.n_tokens - image.n_pos
        at = next_image(tokens, at + image.n_tokens, end)
    return index - spared - (inside.number if inside else 0)


def length_to(tokens: Sequence[int], target: int, is_2d: bool) -> int:
    """Return the smallest number of first tokens, images whole and at least one token, whose next position is at least
    ``target``. ``is_2d``: the model has 2-D positions."""
    n, pos = 0, 0
    while n < len(tokens):
        image = item_at(tokens, n)
        step = image.n_tokens if image else 1
        n, pos = n + step, pos + (image.n_pos if image and is_2d else step)
        if pos >= target:
            break
    return n
