"""Rule sets of mlx-lm that a comparison names by a release or a commit."""

from __future__ import annotations

from cachesim.base.errors import BadInput
from cachesim.engines import registry
from cachesim.engines.build_names import resolve_name

NEWEST = "0.32.2"
PROPOSED = {
    "c2e01bcb": "pr1006c", "82574b4d": "pr1006b", "f0402185": "pr1006a", "38e83982": "pr999", "c30598cf": "pr923",
    "c1c0d8ef": "pr929", "ec281581": "pr923-shared", "6236c674": "pr1253", "c83dedf3": "pr1186", "edbdc50a": "pr1030",
}  # fmt: skip
"""Commit of a pull request -> its rule set, which has no place on the main branch."""


def rules_at(number):
    """Return the rule set of a release, of a commit, or of a pull request's commit. Raise BadInput for another name."""
    name = f"mlx_lm@{PROPOSED.get(number, number)}"
    if name in registry.profiles():
        return registry.rules_of(name)
    found = resolve_name(name)
    if found is None:
        raise BadInput(f"no rule set of {name}")
    return registry.rules_of(found.profile)
