"""Releases of SGLang that have a rule set. The rules are in ``profiles``."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.timeline import UNKNOWN, Commit, Timeline

OWN: Mapping[str, Commit] = {
    "sglang@0.5.9": Commit(UNKNOWN, "2026-02-23"),
    "sglang@0.5.10": Commit(UNKNOWN, "2026-04-05"),
    "sglang@0.5.11": Commit(UNKNOWN, "2026-05-07"),
    "sglang@0.5.12": Commit(UNKNOWN, "2026-05-16"),
    "sglang@0.5.13": Commit(UNKNOWN, "2026-06-11"),
    "sglang@0.5.14": Commit(UNKNOWN, "2026-06-26"),
    "sglang@0.5.15": Commit(UNKNOWN, "2026-07-10"),
    "sglang@0.5.16": Commit(UNKNOWN, "2026-07-25"),
    "sglang@0.5.17": Commit(UNKNOWN, "2026-08-08"),
    "sglang@0.5.18": Commit(UNKNOWN, "2026-08-21"),
    "sglang@0.5.19": Commit(UNKNOWN, "2026-09-04"),
    "sglang@0.5.20": Commit(UNKNOWN, "2026-09-18"),
    "sglang@0.5.21": Commit(UNKNOWN, "2026-10-01"),
    "sglang@0.5.22": Commit(UNKNOWN, "2026-10-15"),
    "sglang@0.5.23": Commit(UNKNOWN, "2026-10-30"),
}
"""Rule set -> day of its release, oldest first."""

LINE = tuple(OWN)
"""Rule sets of releases, oldest first."""

ALIKE: Mapping[str, Commit] = {
    "0.5.10.post1": Commit(UNKNOWN, "2026-04-08"),
    "0.5.12.post1": Commit(UNKNOWN, "2026-05-23"),
    "0.5.13.post1": Commit(UNKNOWN, "2026-06-15"),
    "0.5.15.post1": Commit(UNKNOWN, "2026-07-14"),
}
"""Releases that cache like the one before them, with their days. Their trees were compared with its rule set."""

TIMELINE = Timeline(own=OWN, releases={**{name.partition("@")[2]: at for name, at in OWN.items()}, **ALIKE})
"""Days of the releases. The days on which single changes landed are not known."""

BESIDE: Mapping[str, str] = {
    "sglang@0.5.23-recorded": "sglang@0.5.23",
    "sglang@before-37836": "sglang@0.5.23",
    "sglang@before-29860": "sglang@0.5.23",
    "sglang@before-27038": "sglang@0.5.23",
    "sglang@0.5.23-repaired": "sglang@0.5.23",
    "sglang@before-17061": "sglang@0.5.9",
}
"""Rule set that no release has -> the release that it changes."""
