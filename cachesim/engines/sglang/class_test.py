"""Test of a case on the released classes of SGLang: a program for pytest that drives the scheduler on a CPU.

The program has no model. It states the tokens that each request reuses, and follows after which text each slot is, so
that it also fails if a request reads what another text left.
Source: SGLang 0.5.23 python/sglang/srt/managers/scheduler.py Scheduler.
"""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import BadInput
from cachesim.base.escaping import python_literal, python_name, python_quoted
from cachesim.engines.contract import ClassCase, ClassRequest, ClassTest
from cachesim.engines.sglang.class_test_program import PROGRAM
from cachesim.engines.sglang.flags import options, window_slots
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.profiles import PROFILES
from cachesim.engines.sglang.runtime_context import RuntimeContext, get_runtime_context
from cachesim.engines.sglang.start_options import with_defaults
from cachesim.engines.shared.class_program import filled, token_list
from cachesim.engines.shared.engine_face import layers_of
from cachesim.events import Log

SET = (
    "page_size", "max_total_tokens", "max_mamba_cache_size", "max_running_requests", "chunked_prefill_size",
    "max_prefill_tokens", "schedule_policy", "radix_eviction_policy", "new_token_ratio", "swa_eviction_interval",
    "in_batch_threshold", "mamba_radix_cache_strategy", "mamba_track_interval", "mamba_max_states_per_path",
    "state_grid", "strip_thinking_cache", "enable_hierarchical_cache", "hicache_ratio", "hicache_write_policy",
    "disable_overlap_schedule",
)  # fmt: skip
"""Options that the program sets by their names."""
UNSET = ("speculative_algorithm", "disable_radix_cache")
"""Options that the program does not set up: a case with one of them is refused."""
FIRST_ABORT = 3             # generated tokens after which a client can leave: the program aborts up to two steps before
PARTS = {FULL: "FULL", SWA: "SWA", MAMBA: "MAMBA"}


def test_program(case: ClassCase) -> str:
    """Return the text of the program for a case. Raise BadInput for a case that it cannot express."""
    rules = PROFILES[case.profile]
    given = options(with_defaults(rules, rules.options(case.options)))
    context = get_runtime_context(rules, layers_of(case.model, rules).spec, given, Log())
    if used := [name for name in UNSET if getattr(context.server_args, name)]:
        raise BadInput(f"no test on SGLang's classes is written for {', '.join(used)}")
    if any(0 < request.cancel_after < FIRST_ABORT for request in case.requests):
        raise BadInput("no test on SGLang's classes is written for clients that disconnect before the third token")
    name = python_name(case.name)
    return filled(PROGRAM, {
        "PROFILE": case.profile, "FILE": f"test_{name}.py", "NAME": name, "TITLE": python_quoted(case.title),
        "OPTIONS": _table(_settings(context)), "WINDOW": str(context.swa_retain_window),
        "PARTS": python_literal(tuple(PARTS[part] for part in context.tree_components)),
        "REQUESTS": "\n".join(map(_request, case.requests)),
    })  # fmt: skip


def _settings(context: RuntimeContext) -> dict[str, Any]:
    """Return the options of the program."""
    args = context.server_args
    slots = window_slots(args) if SWA in context.tree_components else 0
    return {**{name: getattr(args, name) for name in SET}, "swa_tokens": slots}


def _table(values: dict[str, Any]) -> str:
    """Return a dictionary with a line for each of its entries."""
    lines = [f"    {python_literal(name)}: {python_literal(value)}," for name, value in values.items()]
    return "\n".join(["{", *lines, "}"])


def _request(request: ClassRequest) -> str:
    """Return a request as a row of the program."""
    how: dict[str, Any] = {"after": request.after} if request.is_together else {}
    how |= {name: value for name in ("cache_salt", "cancel_after") if (value := getattr(request, name))}
    return f"    ({token_list(request.prompt)}, {token_list(request.answer)}, {python_literal(how)}, {request.reused}),"


CLASS_TEST = ClassTest(
    {}, test_program, takes=frozenset({"after", "cache_salt", "cancel_after"}), follows_contents=True)
