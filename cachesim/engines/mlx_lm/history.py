"""Versions of mlx-lm that have a rule set, its releases, and the points at which changes reached its main branch.

The numbers count commits. Source: `git rev-list --count` and tags of ml-explore/mlx-lm up to d78bf58e; for 0.32.2 the
wheel on PyPI. The rules are in ``profiles``.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.timeline import Commit, Timeline

LANDED: Mapping[str, Commit] = {
    "#183": Commit(434, "2025-05-17"), "#405": Commit(531, "2025-08-29"), "#487": Commit(579, "2025-09-23"),
    "#625": Commit(642, "2025-12-02"),
    "#626": Commit(645, "2025-12-03"), "#655": Commit(657, "2025-12-08"), "#738": Commit(692, "2026-01-07"),
    "#743": Commit(698, "2026-01-09"), "#755": Commit(701, "2026-01-14"), "#741": Commit(735, "2026-01-30"),
    "#834": Commit(738, "2026-02-02"), "#843": Commit(745, "2026-02-04"), "#906": Commit(768, "2026-02-19"),
    "#911": Commit(780, "2026-03-06"), "#976": Commit(785, "2026-03-10"), "#1019": Commit(800, "2026-03-26"),
    "#1024": Commit(799, "2026-03-19"), "#1077": Commit(803, "2026-03-31"), "#1106": Commit(808, "2026-04-04"),
    "#1078": Commit(804, "2026-04-01"), "#1072": Commit(805, "2026-04-01"), "#1093": Commit(807, "2026-04-04"),
    "#1109": Commit(811, "2026-04-06"), "#1114": Commit(812, "2026-04-06"), "#1141": Commit(815, "2026-04-14"),
    "#1169": Commit(820, "2026-04-20"), "#1177": Commit(825, "2026-04-21"), "#1673": Commit(868, "2026-08-22"),
    "#1632": Commit(869, "2026-08-22"), "0.32.2": Commit(871, "2026-09"),
}  # fmt: skip
"""Change -> number of commits and date; for 0.32.2 only the month is known."""

OWN: Mapping[str, Commit] = {
    "mlx_lm@0.24.1": Commit(429, "2025-05-14"), "mlx_lm@0.25.1": Commit(447, "2025-06-07"),
    "mlx_lm@0.28.3": Commit(614, "2025-10-17"), "mlx_lm@0.28.4": Commit(648, "2025-12-03"),
    "mlx_lm@0.30.2": Commit(689, "2026-01-05"),
    "mlx_lm@base923": Commit(769, "2026-02-19"), "mlx_lm@0.31.0": LANDED["#911"],
    "mlx_lm@0.31.1": Commit(796, "2026-03-16"), "mlx_lm@m1019": LANDED["#1019"], "mlx_lm@m1072": LANDED["#1072"],
    "mlx_lm@0.31.3": Commit(827, "2026-04-22"), "mlx_lm@d78bf58e": Commit(870, "2026-08-22"),
    "mlx_lm@0.32.2": LANDED["0.32.2"],
}
"""Rule set -> the point at which it was recorded or read."""

RELEASES: Mapping[str, Commit] = {
    "0.24.1": OWN["mlx_lm@0.24.1"], "0.25.1": OWN["mlx_lm@0.25.1"], "0.26.0": Commit(471, "2025-07-08"),
    "0.26.1": Commit(493, "2025-07-26"), "0.26.2": Commit(498, "2025-07-30"), "0.26.3": Commit(510, "2025-08-06"),
    "0.26.4": Commit(526, "2025-08-25"), "0.27.0": Commit(533, "2025-08-29"), "0.27.1": Commit(541, "2025-09-04"),
    "0.28.0": Commit(572, "2025-09-17"), "0.28.1": Commit(584, "2025-09-26"), "0.28.2": Commit(592, "2025-10-02"),
    "0.28.3": OWN["mlx_lm@0.28.3"], "0.28.4": OWN["mlx_lm@0.28.4"], "0.29.0": Commit(661, "2025-12-16"),
    "0.29.1": Commit(661, "2025-12-16"), "0.30.0": Commit(669, "2025-12-18"),
    "0.30.1": Commit(688, "2026-01-05"), "0.30.2": OWN["mlx_lm@0.30.2"], "0.30.4": Commit(713, "2026-01-19"),
    "0.30.5": Commit(724, "2026-01-25"),
    "0.30.6": Commit(746, "2026-02-04"), "0.30.7": Commit(756, "2026-02-12"), "0.31.0": Commit(781, "2026-03-06"),
    "0.31.1": Commit(787, "2026-03-10"), "0.31.2": Commit(813, "2026-04-06"), "0.31.3": OWN["mlx_lm@0.31.3"],
    "0.32.0": OWN["mlx_lm@0.32.2"], "0.32.1": OWN["mlx_lm@0.32.2"], "0.32.2": OWN["mlx_lm@0.32.2"],
    "321e764e": OWN["mlx_lm@base923"], "2105aaf9": LANDED["#911"], "73c85504": OWN["mlx_lm@0.31.1"],
    "4d3af3ce": LANDED["#1019"], "9dc023be": LANDED["#1078"], "3f9d179f": LANDED["#1072"],
    "ed1fca4c": OWN["mlx_lm@0.31.3"], "d78bf58e": OWN["mlx_lm@d78bf58e"],
}
"""Version or commit -> its point. 0.32.0 and 0.32.1 have the point of 0.32.2: their cache.py is the same file, and
their servers differ from it in images and text only."""

TIMELINE = Timeline(OWN, LANDED, RELEASES)

BESIDE: Mapping[str, str] = {
    "mlx_lm@0.32.2-repaired": "mlx_lm@0.32.2",
    "mlx_lm@pr923": "mlx_lm@base923",
    "mlx_lm@pr929": "mlx_lm@base923",
    "mlx_lm@pr999": "mlx_lm@0.31.1",
    "mlx_lm@pr1006a": "mlx_lm@0.31.1",
    "mlx_lm@pr1006b": "mlx_lm@0.31.1",
    "mlx_lm@pr1006c": "mlx_lm@0.31.1",
    "mlx_lm@0.31.1-qwen3_5": "mlx_lm@0.31.1",
    "mlx_lm@pr1253": "mlx_lm@0.31.3",
    "mlx_lm@pr1186": "mlx_lm@0.31.3",
    "mlx_lm@pr1030": "mlx_lm@0.31.3",
    "mlx_lm@m1072-metal": "mlx_lm@m1072",
    "mlx_lm@pr923-repaired": "mlx_lm@base923",
    "mlx_lm@pr923-shared": "mlx_lm@base923",
    "mlx_lm@pr923-shared-repaired": "mlx_lm@base923",
}
"""Proposed or otherwise different rule set -> the rule set on the main branch that it belongs to."""

LINE = tuple(OWN)
"""The main branch, oldest first."""
