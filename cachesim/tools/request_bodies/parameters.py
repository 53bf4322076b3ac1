"""Fields of a request beside the prompt: which were changed, and do they matter to a cache?"""

from __future__ import annotations

import json
from typing import Any, Mapping

RENDERED = frozenset({"chat_template_kwargs", "reasoning_effort", "enable_thinking", "thinking", "reasoning",
                      "tool_choice", "response_format", "json_schema", "output_config", "text"})  # fmt: skip
"""Those that a server may write into the prompt."""
CACHE = frozenset({"cache_prompt", "id_slot", "slot_id", "n_cache_reuse", "lora"})
"""Those that say which cache is used."""
IGNORED = frozenset({"metadata", "user", "store", "stream", "stream_options", "prompt_cache_key", "session_id"})
SHOWN = 40                   # characters of a value


def changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, str]]:
    """The fields that differ: ``name``, both values cut, and whether it ``matters``: "no", "perhaps" (a template may
    write it into the prompt) or "yes"."""
    names = [name for name in {**a, **b} if name not in IGNORED and a.get(name) != b.get(name)]
    return [{"name": name[:SHOWN], "value_before": _short(a.get(name)), "value_after": _short(b.get(name)),
             "matters": "yes" if name in CACHE else "perhaps" if name in RENDERED else "no"}
            for name in names]  # fmt: skip


def _short(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
