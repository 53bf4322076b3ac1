"""Strategies of Hypothesis for prefix caches: conversations, servers, rule sets, and a state machine for caches.

    from hypothesis import given
    from cachesim.strategies import conversations, workloads

    @given(workloads("llama_cpp", rules=MINE))          # a rule set that ``dataclasses.replace`` made
    def test_my_rule(case):
        case.check()                                    # warm equals cold

``repr`` of a drawn value is the notation: a failing test prints the line and the command that repeats it. The
functions ``conversation``, ``request``, ``server`` and ``case`` read it, for use in ``@example``. An argument that is
out of range raises ``BadArgument`` (a ``BadInput`` and ``ValueError``) where the strategy is built. The package needs
the extra ``hypothesis``. cachesim/pages/strategies.md has complete examples.
"""

from __future__ import annotations

try:
    import hypothesis  # noqa: F401
except ImportError:
    from cachesim.base.extras import install_command as _install_command

    _WHY = f"cachesim.strategies needs hypothesis, the extra llm-cachesim[hypothesis]: {_install_command('hypothesis')}"
    raise ImportError(_WHY, name="hypothesis") from None

from cachesim.strategies.argument_checks import BadArgument
from cachesim.strategies.cache_driver import CacheDriver, StoredPrompt
from cachesim.strategies.cache_invariants import (
    BlocksInOnePlace,
    CachedEqualsCold,
    KeyCoversContent,
    NeverNegativeReuse,
    ReferenceCounts,
)
from cachesim.strategies.cache_machine import CacheFault, CacheMachine
from cachesim.strategies.conversation_strategies import conversations, requests
from cachesim.strategies.drawn_values import (
    ClientConversation,
    ClientRequest,
    PropertyBroken,
    ServerCase,
    ServerSetup,
    case,
    conversation,
    joined,
    request,
    server,
    text_of,
)
from cachesim.strategies.explained_lines import leave_out_package
from cachesim.strategies.server_strategies import models, rule_sets, servers, workloads

leave_out_package()

__all__ = [
    "BadArgument", "BlocksInOnePlace", "CacheDriver", "CacheFault", "CacheMachine", "CachedEqualsCold",
    "ClientConversation", "ClientRequest", "KeyCoversContent", "NeverNegativeReuse", "PropertyBroken",
    "ReferenceCounts", "ServerCase", "ServerSetup", "StoredPrompt", "case", "conversation", "conversations", "joined",
    "models", "request", "requests", "rule_sets", "server", "servers", "text_of", "workloads",
]  # fmt: skip
