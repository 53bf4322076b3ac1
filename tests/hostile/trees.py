"""Structural mutations: a value of a parsed file is changed, dropped, repeated or moved.

Mild mutations keep the type, so that many mutants are parsed; harsh mutations do not. Soft mutations change values to
others that a file may contain, so that the code behind the checks is reached.
"""

from __future__ import annotations

from copy import deepcopy

from tests.hostile.nasty import Again, nasty

SOFT = 0.6                 # share of mutants with soft mutations only
HARSH = 0.4                # share of harsh mutations of the others
MOST = 3                   # changes of a mutant, at most


def mutated(tree, rng, donor):
    """Return the tree after 1 to 3 changes in place. ``donor``: a tree to take values from."""
    is_soft = rng.random() < SOFT
    for _ in range(rng.choices(range(1, MOST + 1), (6, 3, 1))[0]):
        place = _place(tree, rng)
        if place is None:
            return nasty(rng)
        change = _soften if is_soft else rng.choice(_HARSH if rng.random() < HARSH else _MILD)
        change(*place, rng, donor)
    return tree


def _place(tree, rng):
    """Return a container in the tree and a key of it. Random descent, so that a long list is as likely as a short
    list."""
    holder, key, node = None, None, tree
    while isinstance(node, (dict, list)) and node and (holder is None or rng.random() < 0.75):
        holder, key = node, rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        node = holder[key]
    return None if holder is None else (holder, key)


def inner(tree):
    """Yield all values of a tree with their keys."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, (dict, list)):
            for key, value in node.items() if isinstance(node, dict) else enumerate(node):
                yield key, value
                left.append(value)


# --- soft ---------------------------------------------------------------------------------------------------


def _soften(holder, key, rng, donor):
    """Replace a number by one of its size, a text or a truth value by one that has this key elsewhere, and repeat or
    drop an entry of a list of texts or numbers."""
    value = holder[key]
    if isinstance(value, bool) or value is None:
        holder[key] = rng.choice((value, not value))
    elif isinstance(value, int):
        holder[key] = rng.choice((value, value + 1, max(0, value - 1), rng.randrange(2 * abs(value) + 2)))
    elif isinstance(value, float):
        holder[key] = value * rng.choice((0.5, 1.0, 1.5))
    elif isinstance(value, str):
        same = [found for name, found in inner(donor) if name == key and isinstance(found, str)]
        holder[key] = rng.choice([value, *same])
    elif isinstance(value, list) and value and not isinstance(value[0], (dict, list)):
        at = rng.randrange(len(value))
        value[at : at + 1] = rng.choice(([], [value[at]], [value[at]] * 2)) if len(value) > 1 else [value[at]]


# --- mild ----------------------------------------------------------------------------------------------------


def _nudge(holder, key, rng, _):
    """Replace a value by a similar value of its type."""
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, (int, float)):
        holder[key] = rng.choice((value + 1, value - 1, value * 2, value // 2, rng.randrange(100)))
    elif isinstance(value, str) and value:
        at = rng.randrange(len(value))
        more, fewer = value[:at] + value[at] + value[at:], value[:at] + value[at + 1 :]
        holder[key] = rng.choice((more, fewer, value[::-1], value[:at]))
    elif isinstance(value, list) and value:
        _shuffle(value, rng)
    else:
        _drop(holder, key, rng, None)


def _shuffle(values, rng):
    """Drop, repeat or swap entries, or truncate the list."""
    i = jumbled(values, rng)
    if i is not None:
        del values[i:]


def jumbled(values, rng):
    """Drop, repeat or swap entries. In a quarter of the cases change nothing and return the index of an entry for
    another change."""
    i, k = rng.randrange(len(values)), rng.randrange(len(values))
    how = rng.randrange(4)
    if how == 0:
        del values[i]
    elif how == 1:
        values.insert(k, values[i])
    elif how == 2:
        values[i], values[k] = values[k], values[i]
    else:
        return i
    return None


def _drop(holder, key, rng, _):
    del holder[key]


def _twice(holder, key, rng, _):
    if isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), holder[key])
    else:
        _nudge(holder, key, rng, _)


def _splice(holder, key, rng, donor):
    """Replace a value by a value of that key in ``donor``, or by a value of its type."""
    value = holder[key]
    same = [found for name, found in inner(donor) if name == key and isinstance(key, str)]
    same = same or [found for _, found in inner(donor) if type(found) is type(value)]
    if same:
        holder[key] = deepcopy(rng.choice(same))         # later changes must not reach the donor


def _enter(holder, key, rng, donor):
    """Add a key that tables of ``donor`` have."""
    if isinstance(holder, dict):
        found = [(name, value) for name, value in inner(donor) if isinstance(name, str)]
        if found:
            holder.update([deepcopy(rng.choice(found))])
    else:
        _splice(holder, key, rng, donor)


# --- harsh ---------------------------------------------------------------------------------------------------


def _replace(holder, key, rng, _):
    holder[key] = nasty(rng)


def _wrap(holder, key, rng, _):
    holder[key] = rng.choice(([holder[key]], {"x": holder[key]}, [[holder[key], holder[key]]]))


def _rename(holder, key, rng, _):
    if isinstance(holder, dict):
        at = rng.randrange(len(key) + 1)
        names = (key[:at] + key[at + 1 :], key + "x", key.upper(), key * 100, "\x1b" + key, "")
        holder[rng.choice(names)] = holder.pop(key)
    else:
        holder[key] = nasty(rng)


def _unknown(holder, key, rng, _):
    if isinstance(holder, dict):
        holder[rng.choice((Again(key), "unknown", "x" * 5000, "\x00", "__class__", "__proto__"))] = nasty(rng)
    else:
        holder.insert(key, nasty(rng))


def _many(holder, key, rng, _):
    """Repeat an entry many times."""
    if isinstance(holder, list):
        holder[key:key] = [holder[key]] * rng.choice((10, 100))
    else:
        holder[key] = [holder[key]] * rng.choice((10, 1000))


_MILD = (_nudge, _nudge, _nudge, _drop, _twice, _splice, _splice, _enter)
_HARSH = (_replace, _replace, _replace, _wrap, _rename, _unknown, _many)
