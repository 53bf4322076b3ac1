"""Histories of prompt caches: queries and inserts that overlap, in every version, and the events that follow.

After an intended change run python -m tests.unit.engines.mlx_lm.lru.histories, and read the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cachesim.engines.mlx_lm.lru import LRUPromptCache, rule_table
from cachesim.model.hash_mixing import Rng
from tests.unit.engines.event_lines import HEAD
from tests.unit.engines.mlx_lm.lru.toys import MODEL, Layer, attention, hybrid, stored

FILE = Path(__file__).with_suffix(".txt")
TABLES = {table: name for name, table in reversed(vars(rule_table).items()) if isinstance(table, rule_table.LruRules)}
NAMES = {name: table for table, name in TABLES.items()}
"""Tables by the first of their names."""
STEPS = 12


def lines_of(name: str) -> Iterator[str]:
    """Yield what happens to the cache of a version, first with layers that can be trimmed, then with others."""
    for layers in (attention, hybrid):
        yield layers.__name__
        told: list[object] = []
        cache = LRUPromptCache(5, 60, rules=NAMES[name], on_event=told.append, checkpoint_interval=4,
                               evaluate=attention)  # fmt: skip
        rng = Rng(7)
        for _ in range(STEPS):
            yield f"  {_step(cache, rng, layers)}"
            yield from (f"    {type(event).__name__}{tuple(event[1:])}" for event in told)
            told.clear()
        yield f"  {stored(cache)} {cache.stats_by_type()} {cache.nbytes} {len(cache)}"


def _step(cache: LRUPromptCache, rng: Rng, layers: object) -> str:
    """Look up a prompt, and store it with its answer; return what was asked and found, or the error."""
    old = [key for _, key in cache.entries()] if rng.chance(50) else []
    before = old[rng.below(len(old))] if old else ()
    prompt = before + tuple(1 + rng.below(2) for _ in range(rng.between(0 if before else 1, 4)))
    answer = tuple(1 + rng.below(2) for _ in range(rng.below(3)))
    kind = cache.rules.kinds[rng.below(len(cache.rules.kinds))]
    try:
        fetch = cache.fetch_nearest_cache(MODEL, prompt)
        held = [layer.held for layer in fetch.cache or ()]
        rest = f"{fetch.how} {fetch.kept} rest {fetch.rest} of {fetch.key} old {fetch.old_key} held {held}"
        key = prompt + answer
        cache.insert_cache(MODEL, key, _grown(fetch.cache, key, layers), cache_type=kind,
                           boundaries=(2, len(prompt)), old_key=fetch.old_key)  # fmt: skip
    except (KeyError, IndexError) as error:
        return f"{prompt} + {answer}: {error!r}"
    return f"{prompt} + {answer} as {kind}: {rest}"


def _grown(cache: list[Layer] | None, key: tuple[int, ...], layers: object) -> list[Layer]:
    """Return the layers after the prompt and the answer: those that were handed out, or new ones."""
    found = cache or layers(key)  # type: ignore[operator]
    for layer in found:
        layer.held = layer.nbytes = len(key)
    return found


def write() -> None:
    """Write the file."""
    with FILE.open("w", encoding="utf-8") as file:
        for name in NAMES:
            print(f"{HEAD}{name}", *lines_of(name), sep="\n", file=file)


if __name__ == "__main__":
    write()
