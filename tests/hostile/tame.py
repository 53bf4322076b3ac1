"""Limits on the work that a mutant may request: much work on request is not a fault.

Time limits are set low, as for untrusted files: with a million tokens, which a user may want, every command may run for
a minute. Limits that protect the machine are unchanged.
"""

from __future__ import annotations

import re

PATIENT = {"tokens": 20_000, "sampled": 2_000, "passes": 20_000}
EXACT = {"tokens": 1_500, "sampled": 1_500, "passes": 20_000}     # attention is quadratic
WITH_LIMITS = ("run", "try", "why", "diff", "bisect", "shrink", "replay", "workload")
MOST = {"-j": 2, "--jobs": 2, "--examples": 4, "--minutes": 0, "--tries": 20}
EXAMPLES = ("--examples", str(MOST["--examples"]))
SAID = {"fuzz": EXAMPLES, "repair": EXAMPLES, "shrink": ("--tries", str(MOST["--tries"]))}
"""Default amounts, if the command line contains none."""
_ASKED = re.compile(r"(--[a-z-]+=|-j|[a-z-]+=)?([0-9]+)")


def tame(argv):
    """Return the command line with low limits, and with requested amounts reduced."""
    words = [_less(argv[i - 1] if i else "", word) for i, word in enumerate(argv)]
    if words and words[0] in WITH_LIMITS:
        provenance = words[0] in ("replay", "workload") or "--provenance" in words
        low = PATIENT if provenance else EXACT
        words[1:1] = [part for name, most in low.items() for part in ("--limit", f"{name}={most}")]
    if words and words[0] in SAID:
        words[1:1] = SAID[words[0]]
    return tuple(words)


def _less(before, word):
    match = _ASKED.fullmatch(word)
    flag = ((match[1] or "").rstrip("=") or before) if match else ""
    limit = match and (before == "--limit" or flag.startswith("--max-"))
    if not limit and flag not in MOST:
        return word
    most = 1000 if limit else MOST[flag]
    return f"{match[1] or ''}{min(int(match[2][:20]), most)}"
