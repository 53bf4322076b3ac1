"""Releases of SGLang that have a rule set. The rules are in ``profiles``."""

from __future__ import annotations

from typing import Mapping

LINE = (
    "sglang@0.5.9",
    "sglang@0.5.20",
    "sglang@0.5.23",
)
"""Rule sets of releases, oldest first."""

BESIDE: Mapping[str, str] = {
    "sglang@0.5.23-recorded": "sglang@0.5.23",
    "sglang@before-37836": "sglang@0.5.23",
    "sglang@before-29860": "sglang@0.5.23",
    "sglang@before-27038": "sglang@0.5.23",
    "sglang@0.5.23-repaired": "sglang@0.5.23",
    "sglang@before-17061": "sglang@0.5.9",
}
"""Rule set that no release has -> the release that it changes."""
