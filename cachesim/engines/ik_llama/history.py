"""Versions of ik_llama.cpp that have a rule set, and the points at which changes reached its main branch.

The numbers count commits, `git rev-list --count`. The rules are in ``profiles``.

Source: ikawrakow/ik_llama.cpp up to 8337e4cd3.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.timeline import Commit, Timeline

_CHANGES: Mapping[str, tuple[int, str, str]] = {
    "#645": (3840, "2025-08-16", "b6bc5eeda"), "#757": (3876, "2025-09-04", "144d45671"),
    "#924": (3968, "2025-11-09", "b63309a91"), "#947": (3989, "2025-11-14", "6b9d1bf4b"),
    "#954": (3995, "2025-11-14", "bb358223c"), "#973": (4011, "2025-11-19", "bacb8fb79"),
    "#1008": (4026, "2025-11-26", "0b126b2ca"), "#1079": (4073, "2025-12-22", "2a633c435"),
    "#1134": (4111, "2026-01-13", "1a461525d"),
    "#1295": (4213, "2026-02-21", "66323b92f"), "#1310": (4233, "2026-02-26", "3fac78c48"),
    "#1346": (4248, "2026-03-02", "8f9e19d57"), "#1398": (4286, "2026-03-13", "433531dda"),
    "#1376": (4429, "2026-04-22", "e0596bf61"), "#1430": (4301, "2026-03-15", "edf54621d"),
    "#1584": (4387, "2026-04-05", "5e8bb724c"), "#1673": (4432, "2026-04-23", "48819dada"),
    "#1679": (4434, "2026-04-24", "1c1328816"), "#1669": (4435, "2026-04-24", "ea94afe77"),
    "#1698": (4441, "2026-04-28", "67e634622"), "#1716": (4450, "2026-05-02", "9f1deefa7"),
    "#1713": (4453, "2026-05-03", "2dd381808"),
    "#1743": (4464, "2026-05-06", "39b3a188e"), "#1789": (4502, "2026-05-15", "f4f4b3ff2"),
    "#1781": (4482, "2026-05-12", "c2f498ab4"), "#1787": (4487, "2026-05-13", "cdc288bc9"),
    "#1758": (4478, "2026-05-11", "35845dd97"), "#1913": (4559, "2026-06-04", "1520eda98"),
    "#1794": (4507, "2026-05-17", "c35189d83"), "#1860": (4531, "2026-05-22", "d51036a0c"),
    "#1949": (4583, "2026-06-12", "8a3802517"), "#1970": (4623, "2026-06-16", "f9078e169"),
    "#1992": (4634, "2026-06-19", "0d59973e4"),
    "#2020": (4650, "2026-06-24", "befbc0945"), "#2105": (4705, "2026-07-10", "606d9db30"),
    "#2205": (4756, "2026-07-30", "dd837ff21"), "#2195": (4762, "2026-07-30", "52836917a"),
    "#2222": (4771, "2026-08-01", "bd2d8e102"), "#2253": (4791, "2026-08-05", "cf1aa57e1"),
    "#2260": (4793, "2026-08-06", "4a4a6d3c1"),
}  # fmt: skip
"""Change -> number of commits, date, commit."""

BASE, MAIN = (4544, "2026-05-26", "d2da6da05"), (4840, "2026-08-15", "8337e4cd3861406fc04e0854b1409cd1b027fbc9")
AFTER_MAIN = (4841, "2026-09")                  # only the month of #2491 is known
OWN: Mapping[str, tuple[int, str]] = {
    **{f"ik_llama@{n}": _CHANGES[f"#{n}"][:2] for n in (645, 954, 973, 1008, 1079, 1134)},
    **{f"ik_llama@{n}": _CHANGES[f"#{n}"][:2] for n in (1295, 1310, 1346, 1398, 1673, 1679, 1698, 1716, 1743)},
    "ik_llama@1889-base": BASE[:2],
    **{f"ik_llama@{n}": _CHANGES[f"#{n}"][:2] for n in (1949, 1992, 2020, 2105, 2195)},
    "ik_llama@2205": _CHANGES["#2195"][:2],     # #2205 landed a few commits before #2195
    "ik_llama@main": MAIN[:2],
    "ik_llama@2491": AFTER_MAIN,
}
"""Rule set -> point at which it was recorded or read."""


HASHES: Mapping[str, str] = {"8337e4cd3861406fc04e0854b1409cd1b027fbc9": "ik_llama@main"}
"""Commit of recordings without profile -> the rule set that was recorded there."""

BESIDE: Mapping[str, str] = {
    "ik_llama@main-repaired": "ik_llama@main",
    "ik_llama@2378": "ik_llama@main",
    "ik_llama@2441": "ik_llama@main",
    "ik_llama@2195-draft2": "ik_llama@2105",
    "ik_llama@2195-draft": "ik_llama@2105",
    "ik_llama@pr1889": "ik_llama@1889-base",
    "ik_llama@pr1888": "ik_llama@1889-base",
    "ik_llama@pr1877": "ik_llama@1889-base",
}
"""Proposed rule set -> the rule set that it changes."""

LINE = tuple(OWN)
"""Main-branch rule sets, oldest first."""

TIMELINE = Timeline(
    own={name: Commit(*point) for name, point in OWN.items()},
    landed={change: Commit(number, date) for change, (number, date, _) in _CHANGES.items()},
    releases={commit: Commit(number, date) for number, date, commit in (*_CHANGES.values(), BASE, MAIN)},
)
