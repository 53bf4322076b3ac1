"""Which cells has the table? Rule sets by kinds of model by settings; what an engine lacks is n/a."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.engines.registry import engine_of

MODELS = {"attention": "llama-3", "window": "gpt-oss", "recurrent": "mamba-2", "hybrid": "qwen3-next"}
"""Kind of model -> the real one whose layers and sizes stand for it."""

MODELS_IN_LAYERS = {"attention": "A", "window": "W2 A", "recurrent": "S", "hybrid": "GA"}

RULE_SETS = {
    "latest": "llama_cpp@b11549", "repaired": "llama_cpp@latest-repaired", "head": "llama_cpp@head",
    "pr24143": "llama_cpp@pr24143-on-head", "24035-v3": "llama_cpp@24035-v3", "user-turns": "llama_cpp@user-turns",
    "swa-first": "llama_cpp@swa-first", "ik main": "ik_llama@main", "mlx 0.32.2": "mlx_lm@0.32.2",
}
"""Row of the table -> rule set."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "default": {}, "ctx-checkpoints 8": {"ctx_checkpoints": 8}, "ctx-checkpoints 128": {"ctx_checkpoints": 128},
    "checkpoint-min-step 0": {"checkpoint_min_step": 0}, "cache-ram 0": {"cache_ram": 0},
    "cache-ram -1": {"cache_ram": -1}, "-np 4 -kvu": {"parallel": 4, "kv_unified": True},
}  # fmt: skip
WITHOUT = "ctx-checkpoints 0"
"""The setting of the newest rule set only: no checkpoints at all."""


TOGETHER = 4
"""Sessions that use one server at the same time, in the table of those that share one."""

SHARED: Mapping[str, Mapping[str, Any]] = {
    "default": {}, "cache-ram -1": {"cache_ram": -1}, "-np 1": {"parallel": 1},
    "-np 1, cache-ram -1": {"parallel": 1, "cache_ram": -1}, "-np 2": {"parallel": 2},
    "-np 2, cache-ram -1": {"parallel": 2, "cache_ram": -1}, "-np 4": {"parallel": 4},
    "-np 4, cache-ram 0": {"parallel": 4, "cache_ram": 0},
}  # fmt: skip
RULES_SHARED = ("latest", "repaired", "head", "ik main", "mlx 0.32.2")


class Column(NamedTuple):
    """One cell of every session."""

    rules: str
    kind: str
    setting: str
    given: Mapping[str, Any]

    @property
    def profile(self) -> str:
        """The rule set."""
        return RULE_SETS[self.rules]


def has(profile: str, given: Mapping[str, Any]) -> bool:
    """Has the engine all of these options?"""
    manual = engine_of(profile).manual
    return all(manual.flag(name) is not None for name in given)


def knows(profile: str, kind: str) -> bool:
    """Does the engine have this model?"""
    return MODELS[kind] in engine_of(profile).manual.known


CHECKPOINTS = {"ctx_checkpoints", "checkpoint_min_step"}


def as_default(profile: str, kind: str, given: Mapping[str, Any]) -> bool:
    """Is it the same server as without these options? It is, if what start-up makes of them is the same (four slots
    with a unified cache are the default), and where options of checkpoints meet a model of attention layers only, which
    has none. Such a cell is that of the default setting, and is not played again."""
    if not given or (kind == "attention" and set(given) <= CHECKPOINTS):
        return True
    engine = engine_of(profile)
    both = (engine.start(profile, MODELS_IN_LAYERS[kind], options, "none") for options in ({}, given))
    plain, other = (getattr(server, "settings", server) for server in both)
    return bool(plain == other)


def columns_shared() -> Iterator[Column]:
    """The cells of servers that several sessions, or sub-agents, use: hybrid only."""
    for setting, given in SHARED.items():
        for rules in RULES_SHARED:
            if has(RULE_SETS[rules], given):
                yield Column(rules, "hybrid", setting, given)


def columns() -> Iterator[Column]:
    """Every cell: settings outermost, so that the first ones are whole first."""
    for setting, given in SETTINGS.items():
        for rules, profile in RULE_SETS.items():
            if has(profile, given):
                for kind in (one for one in MODELS if knows(profile, one)):
                    yield Column(rules, kind, setting, given)
        if setting == "default":
            for kind in MODELS:
                yield Column("latest", kind, WITHOUT, {"ctx_checkpoints": 0})
