"""The ``Engine`` of this package: its rule sets, its options, and how its server starts."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.history import BESIDE, LINE, TIMELINE
from cachesim.engines.sglang.manual import MANUAL
from cachesim.engines.shared.engine_face import (
    Layout,
    RuleSetsOnDemand,
    bodies_of,
    capacity_of,
    class_test_of,
    classes_of,
    command_of,
    layers_of,
    log_of,
    memory_of,
    say_of,
    serve_of,
)
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.model import Spec


def _derived(rules: RuleSet, given: Mapping[str, Any]) -> list[str]:
    """Return the sizes and defaults that the release derives at its start from the given options."""
    from cachesim.engines.sglang.pool_sizes import derived_pool, derived_sizes
    from cachesim.engines.sglang.profiles.rule_table import Rules
    from cachesim.engines.sglang.start_options import derived_defaults, with_defaults

    assert isinstance(rules, Rules)
    opts = options(with_defaults(rules, rules.options(given)))
    pool = [] if "max_total_tokens" in given else derived_pool(rules, opts)
    return [*derived_sizes(rules, opts), *pool, *derived_defaults(rules, given)]


def _resolved(rules: RuleSet, spec: Spec, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options with the defaults that the release chooses at its start, from its model and device."""
    from cachesim.engines.sglang.profiles.rule_table import Rules
    from cachesim.engines.sglang.start_options import with_defaults

    assert isinstance(rules, Rules)
    return with_defaults(rules, given)


def _check_start(rules: RuleSet, model: str, given: Mapping[str, Any]) -> None:
    """Raise BadInput for a context above that of the model."""
    from cachesim.engines.sglang.start_options import check_context

    check_context(given)


def layout(model: str, rules: RuleSet) -> Layout:
    """Return the layers of a model. Raise BadInput for windows only: SGLang keeps them in its pool of full attention,
    or in a pool of windows alone (PureSWARadixCache), whose tree takes over slots that a request has given back
    (S-DEF-10, mem_cache/radix_cache.py RadixCache.checkpoint)."""
    found = layers_of(model, rules)
    if {bool(layer.window) for layer in found.spec.layers if layer.part} == {True}:
        raise BadInput(f"model {quoted(model)} has windows only; SGLang keeps them in its pool of full attention, or, "
                       "in a few models, in a pool of windows alone, which is not simulated (S-DEF-10)",
                       hint="A for each of its layers")  # fmt: skip
    return found


PACKAGE = __name__.rpartition(".")[0]
PROFILES = RuleSetsOnDemand(PACKAGE, LINE, BESIDE)
ENGINE = Engine(
    "sglang", PROFILES, MANUAL, serve=serve_of(PACKAGE, options, layout, _resolved), say=say_of(PACKAGE),
    recorded=RecordingFormat("sglang", {"0.5.23": "sglang@0.5.23-recorded"}, classes=classes_of(PACKAGE)),
    line=LINE, beside=BESIDE, newest=LINE[-1], when=TIMELINE, keeps="restore point", log=log_of(PACKAGE),
    memory=memory_of(PACKAGE), capacity=capacity_of(PACKAGE), command=command_of(PACKAGE),
    derived=_derived,
    check_start=_check_start,
    chat_bodies=bodies_of(PACKAGE), class_test=class_test_of(PACKAGE),
    words=r"\bradix\b|#(cached|new)-(token|seq)|\bhicache\b|token_to_kv_pool|\bretract|kv cache pool is full|"
          r"\bprefill batch\b|mem_fraction_static|\bmamba usage\b|\bswa token usage\b",
)  # fmt: skip

__all__ = ["ENGINE", "PROFILES"]
