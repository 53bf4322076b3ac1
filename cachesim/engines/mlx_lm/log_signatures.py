"""Signatures of mlx_lm.server. It logs sizes of its cache and reused tokens, but no decision about an entry: every rule
is visible only in the number of reused tokens."""

from __future__ import annotations

from typing import Mapping

UNLOGGED: Mapping[str, str] = {"ML-": "not logged: in the number of reused tokens, and in the number of entries"}
"""Beginnings of rule ids without a line, and where the decision becomes visible."""
