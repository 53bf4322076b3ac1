"""Newest rule set of every engine, read without the engines: their rules take most of the start of a command."""

from __future__ import annotations

from importlib import import_module

from cachesim.engines import plugins

BUILTIN_NAMES = ("llama_cpp", "ik_llama", "mlx_lm", "vllm", "sglang")
"""Engines of the package, the default one first."""


def newest_rule_sets() -> list[str]:
    """Return the newest main-branch rule set of each engine, those of the package first. Engines of installed packages
    are imported."""
    newest = [import_module(f"{__package__}.{name}.history").LINE[-1] for name in BUILTIN_NAMES]
    if plugins.any_installed():
        engines = import_module("cachesim.engines.registry").ENGINES
        others = (engine for name, engine in engines.items() if name not in BUILTIN_NAMES)
        newest += [engine.newest or engine.line[-1] for engine in others if engine.line]
    return newest
