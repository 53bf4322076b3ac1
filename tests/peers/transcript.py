"""Compact transcript of the real classes, for replay without MLX.

The operations follow from the seed. The transcript keeps eight hexadecimal digits of each answer of the real classes.
"""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

from cachesim.engines.mlx_lm import caches
from tests.peers import compare, lru_talk
from tests.peers.worlds import Ours

PATH = Path(__file__).resolve().parents[1] / "data" / "mlx_lm" / "classes-0.32.2.json"
CLASS_OPS, LRU_OPS = 8000, 3000
STEP = 256                                    # default of the classes


def digest(answer):
    """Return eight digits for a plain value."""
    return f"{crc32(json.dumps(answer).encode()):08x}"


def digests(theirs, seed, class_ops, lru_ops):
    """Return the digits of both kinds of operations; ``theirs`` None: of ours alone."""
    classes, lru = [], []
    play_classes(caches.AT_0_32_2, theirs, class_ops, seed, lambda answer: classes.append(digest(answer)))
    lru_talk.run(theirs and theirs.caches, lru_ops, seed, told=lambda answer: lru.append(digest(answer)))
    return {"classes": "".join(classes), "lru": "".join(lru)}


def play_classes(rules, theirs, ops, seed, told):
    """Run operations on the cache classes under a table of rules; ``told`` receives each answer."""
    ours = Ours(rules)
    try:
        compare.run(ours, theirs, ops, seed, told)
    finally:
        ours.steps(STEP)


def record(theirs, seed):
    """Write the transcript. Return its path."""
    from importlib.metadata import version

    found = digests(theirs, seed, CLASS_OPS, LRU_OPS)
    head = {"mlx": version("mlx"), "mlx_lm": version("mlx-lm"), "seed": seed, "ops": [CLASS_OPS, LRU_OPS]}
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(json.dumps({**head, **found}, indent=1) + "\n", "utf-8")
    return PATH
