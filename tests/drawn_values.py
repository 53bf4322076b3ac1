"""Draws of Hypothesis that are the same in every process."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from hypothesis.internal.entropy import deterministic_PRNG


def leave_out_constants() -> None:
    """Draw no constants of our modules. Hypothesis draws those of the modules that a process has imported: it parses
    them for seconds, and a test draws other examples in another process, or after a change of any module. Older
    versions of Hypothesis do not."""
    name = "hypothesis.internal.conjecture.providers"
    providers = import_module(name) if find_spec(name) else None
    if hasattr(providers, "_get_local_constants"):
        vars(providers)["_get_local_constants"] = vars(providers)["Constants"]


def register_generator() -> None:
    """Let Hypothesis register its random generator. It collects garbage and searches all objects of the process for
    references then, which takes seconds after the collection of the tests."""
    with deterministic_PRNG():
        pass
