"""Comparison of drawn operations in two worlds, with counts of operations and kinds of caches."""

from __future__ import annotations

from collections import Counter

from tests.peers.actions import Table
from tests.peers.talk import FAMILIES, Dice, Talk, setting
from tests.peers.worlds import ABSENT, Raised

PARTIAL = ("merge", "extend", "restore", "finalize", "filter", "extract", "mask")
"""Operations that versions before #1072 do not support for caches without tokens, or not with every argument."""


class Mismatch(Exception):
    """The worlds differ."""


def attempt(table, action):
    """Return the result of the operation as a plain value, or "raises"."""
    try:
        return table.do(action)
    except Raised:
        return "raises"


def run(ours, theirs, ops, seed, told=lambda answer: None):
    """Run ``ops`` operations in both worlds. Return the counts by name. ``theirs`` None: only ours. Raise
    Mismatch."""
    tried, families = Counter(), FAMILIES if theirs is None else families_of(theirs)
    episode = 0
    while tried["operations"] < ops:
        dice = Dice(f"{seed}/{episode}")
        scene = setting(dice, families)
        for world in (ours, theirs):
            if world is not None:
                world.steps(scene.step)
        tables = [Table(world, scene.dtype, scene.shape) for world in (ours, theirs) if world is not None]
        _episode(scene, dice, tables, tried, ops, (seed, episode), told)
        episode += 1
    return tried


def families_of(theirs):
    """Return the families whose classes a version has, with batches where it has them."""
    lacking = {"ArraysCache", "CacheList"} - theirs.kinds
    return [family._replace(batched=family.batched and theirs.batches(family.kind)) for family in FAMILIES
            if family.kind in theirs.kinds and (family.kind != "CacheList" or not lacking)]  # fmt: skip


def _episode(scene, dice, tables, tried, ops, where, told):
    done = []
    for action in Talk(dice, scene, tables[0].things, filled=bool(tables[0].world.unasked)).actions():
        done.append(action)
        count(tried, action, tables[0].things)
        answers = [attempt(table, action) for table in tables]
        both = answers == ["raises"] * len(answers)
        if tables[0].world.unasked and (both or _not_supported(action, answers, tables[0].things)):
            # Versions before #1072 support few operations on empty caches, and MLX reads rows that do not exist.
            tried["given up"] += 1
            tried["given up at " + action[0]] += 1
            return
        if differences("", answers[0], answers[-1]):
            raise Mismatch(report(where, scene, done, answers))
        told(answers[0])
        if answers[0] == "raises":
            tried["raises"] += 1
            return
        if tried["operations"] >= ops:
            return


def _not_supported(action, answers, things):
    """True for an operation that an older version, whose answer is the last, does not support for these caches."""
    if answers[-1] == "raises" and action[0] in PARTIAL:
        return True
    return _merges_nothing(action, things) or (answers[0] == "raises" and _reads_missing_rows(action, things))


def _merges_nothing(action, things):
    """True for a merge of caches without tokens. A row that was trimmed by more tokens than it had has less than 0."""
    return action[0] == "merge" and not any(leaf.size() > 0 for one in action[2] for leaf in leaves(things[one]))


def _reads_missing_rows(action, things):
    """True for an operation on rows of a batch that its arrays do not have: an empty batch of several rows that was
    extended by another one has counters for all of them, and the arrays of the other one."""
    name, *told = action
    if name not in ("filter", "extract"):
        return False
    source, rows = (told[0], told[1]) if name == "filter" else (told[1], [told[2]])
    arrays = [getattr(leaf, "keys", None) for leaf in leaves(things[source])]
    return any(array is not None and max(rows) >= array.shape[0] for array in arrays)


def count(tried, action, things):
    """Count the operation, its kind of cache, and whether rows were ragged or a ring had wrapped."""
    name, place = action[0], action[1]
    sources = action[2] if name == "merge" else [action[2] if name == "extract" else place]
    tried["operations"] += 1
    tried["prepare/finalize" if name in ("prepare", "finalize") else name] += 1
    held = [leaf for one in sources if one in things for leaf in leaves(things[one])]
    for kind in {type(leaf).__name__ for leaf in held}:
        tried["on " + kind] += 1
    state = "".join(
        word for word, holds in (("ragged ", _ragged(held, name)), ("wrapped ", any(map(_wrapped, held)))) if holds
    )
    for word in state.split():
        tried["while " + word] += 1
        tried[f"{name} while {word}"] += 1


def leaves(cache):
    return [leaf for child in cache.caches for leaf in leaves(child)] if hasattr(cache, "caches") else [cache]


def _ragged(held, name):
    if name == "merge":
        return len({cache.size() for cache in held}) > 1
    paddings = [getattr(cache, "left_padding", None) for cache in held]
    return any(len(set(padding.tolist())) > 1 for padding in paddings if padding is not None)


def _wrapped(cache):
    if not hasattr(cache, "max_size"):
        return False
    return max(cache.offset if hasattr(cache, "rotated") and len(cache.offset) else [cache.offset]) > cache.max_size


def report(where, scene, done, answers):
    """Return the first difference of the worlds, with the operations before it."""
    return "\n".join([f"seed {where[0]}, episode {where[1]}: {scene}", *map(str, done), *differences("", *answers)])


def differences(path, a, b):
    """Return a line for each place where two plain values differ. What a class does not have is not compared."""
    if ABSENT in (a, b):
        return []
    if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
        return [] if a == b else [f"{path}: ours {a}, theirs {b}"]
    return [line for i, (x, y) in enumerate(zip(a, b, strict=True)) for line in differences(f"{path}[{i}]", x, y)]
