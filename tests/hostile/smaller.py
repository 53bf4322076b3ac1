"""Shrinking of a finding (delta debugging): keys, entries, bytes and words are removed as long as the finding
remains."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

from tests.hostile.written import to_json, to_toml

TRIES = 150                  # runs, at most


def smaller(mutant, still):
    """Return a mutant from which nothing more can be removed, or the smallest after ``TRIES`` runs. ``still`` returns
    whether a mutant has the finding."""
    left = [TRIES]

    def found(candidate):
        left[0] -= 1
        return left[0] >= 0 and still(candidate)

    for name in mutant.files:
        mutant = _with_file(mutant, name, found)
    for words in (2, 1):                         # an option with its value, then single words
        for i in range(len(mutant.argv) - words, 0, -1):
            fewer = replace(mutant, argv=mutant.argv[:i] + mutant.argv[i + words :])
            mutant = fewer if i + words <= len(mutant.argv) and found(fewer) else mutant
    return mutant


def _with_file(mutant, name, found):
    def with_bytes(data):
        return replace(mutant, files={**mutant.files, name: data})

    data = mutant.files[name]
    tree, write = _parsed(data)
    if tree is not None and found(with_bytes(write(tree))):
        data = write(_smaller_tree(tree, lambda one: found(with_bytes(write(one)))))
    else:
        data = _smaller_bytes(data, lambda one: found(with_bytes(one)))
    return with_bytes(data)


def _parsed(data):
    for read, write in ((json.loads, to_json), (lambda text: tomllib.loads(text.decode()), to_toml)):
        try:
            tree = read(data)
        except (ValueError, RecursionError):
            continue
        return tree, lambda one, write=write: write(one).encode("utf-8", "surrogatepass")
    return None, None


def _smaller_tree(tree, found):
    """Return the tree without unneeded entries, outermost entries removed first."""
    level = [tree]
    while level:
        for node in level:
            if isinstance(node, list):
                _halve(node, lambda: found(tree))
            for key in list(node) if isinstance(node, dict) else reversed(range(len(node))):
                value = node.pop(key)
                if not found(tree):
                    node.update({key: value}) if isinstance(node, dict) else node.insert(key, value)
        level = [inner for node in level for inner in (node.values() if isinstance(node, dict) else node)
                 if isinstance(inner, (dict, list)) and inner]  # fmt: skip
    return tree


def _halve(values, found):
    """Remove halves of a long list while the finding remains."""
    while len(values) > 3:
        half = values[len(values) // 2 :]
        del values[len(values) // 2 :]
        if not found():
            values += half
            return


def _smaller_bytes(data, found):
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            fewer = data[:at] + data[at + size :]
            if found(fewer):
                data = fewer
            else:
                at += size
        size //= 2
    return data
