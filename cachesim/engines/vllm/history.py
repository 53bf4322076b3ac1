"""Releases of vLLM that have a rule set. The rules are in ``profiles``."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.timeline import UNKNOWN, Commit, Timeline

OWN: Mapping[str, Commit] = {
    "vllm@0.24.0": Commit(UNKNOWN, "2026-06-30"),
    "vllm@0.25.0": Commit(UNKNOWN, "2026-07-11"),
    "vllm@0.25.1": Commit(UNKNOWN, "2026-07-14"),
    "vllm@0.26.0": Commit(UNKNOWN, "2026-07-25"),
    "vllm@0.27.0": Commit(UNKNOWN, "2026-08-10"),
    "vllm@0.27.1": Commit(UNKNOWN, "2026-08-11"),
    "vllm@0.28.0": Commit(UNKNOWN, "2026-08-25"),
    "vllm@0.29.0": Commit(UNKNOWN, "2026-09-09"),
    "vllm@0.30.0": Commit(UNKNOWN, "2026-09-22"),
    "vllm@0.31.0": Commit(UNKNOWN, "2026-10-05"),
    "vllm@0.32.0": Commit(UNKNOWN, "2026-10-18"),
    "vllm@0.33.0": Commit(UNKNOWN, "2026-11-02"),
}
"""Rule set -> day of its release on PyPI, oldest first."""

BESIDE: Mapping[str, str] = {
    "vllm@0.33.0-repaired": "vllm@0.33.0",
    "vllm@0.23.0-split-on-0.30.0": "vllm@0.30.0",
}
"""Rule set that no release has -> the release that it changes."""

TIMELINE = Timeline(own=OWN, releases={name.partition("@")[2]: at for name, at in OWN.items()})
"""Days of the releases. The days on which single changes landed are not known."""

LINE = tuple(OWN)
"""Rule sets of releases, oldest first."""
