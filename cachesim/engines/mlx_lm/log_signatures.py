"""Signatures of mlx_lm.server. It logs sizes of its cache and reused tokens, but no decision about an entry: every rule
is visible only in the number of reused tokens."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_signatures import Signature

SIGNATURES = (
    Signature("server-warning", (
        "thread_ended", "studio_clear", "studio_miss", "studio_unsaved", "ollama_restore_failed",
    ), (), (), is_quoted=True),
)
"""Signatures: only warnings are printed."""

UNLOGGED: Mapping[str, str] = {"ML-": "not logged: in the number of reused tokens, and in the number of entries"}
"""Beginnings of rule ids without a line, and where the decision becomes visible."""
