"""The ``Engine`` of this package: its rule sets, its options, and how its server starts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Mapping

from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.llama_cpp.flags import Options, read_flags, recorded_options, write_flags
from cachesim.engines.llama_cpp.history import BESIDE, COMMITS, LINE, NEWEST, TIMELINE
from cachesim.engines.llama_cpp.manual import MANUAL
from cachesim.engines.shared.engine_face import (
    Layout,
    RuleSetsOnDemand,
    bodies_of,
    capacity_of,
    command_of,
    events_of,
    log_of,
    memory_of,
    say_of,
    serve_of,
)
from cachesim.engines.shared.flags import options_of
from cachesim.engines.shared.rule_set import RuleSet

if TYPE_CHECKING:
    from cachesim.engines.llama_cpp.profiles import Rules


def layout(model: str, rules: Rules) -> Layout:
    """Return a model as this engine lays it out. Raise BadInput."""
    from cachesim.engines.llama_cpp.memory.model_layout import model_kind

    kind = replace(model_kind(model), form=rules)
    return Layout(kind, kind.spec)


def _derived(rules: RuleSet, given: Mapping[str, Option]) -> list[str]:
    """Return what a server without --ctx-size takes from its model."""
    options = rules.options(given)
    if options.get("ctx_size") or options.get("kv_unified_per_slot") or not given.get("n_ctx_train"):
        return []
    return [f"-c {given['n_ctx_train']}: the model's own context; the server takes less if its memory is too small"]


def cautions(rules: RuleSet, model: str, given: Mapping[str, Option]) -> list[str]:
    """Return sentences about flags that change answers or end the process with this model. Raise BadInput if the server
    does not start."""
    from cachesim.engines.llama_cpp.memory.model_layout import model_kind
    from cachesim.engines.llama_cpp.newest_start import flag_notes
    from cachesim.engines.llama_cpp.profiles import Rules
    from cachesim.engines.llama_cpp.server_flags import settings

    assert isinstance(rules, Rules)
    opts, kind = options_of(Options, rules.options(given)), model_kind(model)
    kind = replace(kind, types=(opts.cache_type_k, opts.cache_type_v))
    return flag_notes(rules, kind, settings(opts, kind, rules))


PACKAGE = __name__.rpartition(".")[0]
PROFILES = RuleSetsOnDemand(PACKAGE, LINE, BESIDE)
ENGINE = Engine(
    name="llama_cpp",
    profiles=PROFILES,
    manual=MANUAL,
    serve=serve_of(PACKAGE, partial(options_of, Options), layout),
    say=say_of(PACKAGE),
    recorded=RecordingFormat(
        name="llama.cpp",
        commits=COMMITS,
        events=events_of(PACKAGE),
        read=read_flags,
        write=write_flags,
        options=recorded_options,
    ),
    line=LINE,
    beside=BESIDE,
    newest=NEWEST,
    when=TIMELINE,
    log=log_of(PACKAGE),
    memory=memory_of(PACKAGE),
    capacity=capacity_of(PACKAGE),
    command=command_of(PACKAGE),
    chat_bodies=bodies_of(PACKAGE),
    cautions=cautions,
    derived=_derived,
)

start = ENGINE.start

__all__ = ["ENGINE", "MANUAL", "PROFILES", "start"]
