"""Rule sets with equal outcomes, which reports show together: "same under b9518, b10587".

Outcomes are equal if everything that a client can observe (``outcomes.CLIENT``, by the digest ``client``) and
everything that a report shows of the caches is equal. Names of rules, sizes and log lines may differ.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence, TypeVar

NAMES = frozenset({"profile", "rule", "flags", "source", "command", "case", "because", "decided", "decisions",
                   "stored_mib", "mismatches", "lives", "sizes", "draft_memory", "micro_batches"})  # fmt: skip
"""Keys of ``run_data`` and ``answer_data`` that name rules and sizes, and expectations that were not met."""
Data = TypeVar("Data", bound=Mapping[str, Any])


def fold(runs: Sequence[Data]) -> list[list[Data]]:
    """Group data of ``run_data`` or ``answer_data`` with equal outcomes, in the order of the first of each group. A run
    that differs from the expectations of its file stays alone."""
    if len(runs) == 1:                # nothing to compare: a run of 1,000 requests has much data
        return [list(runs)]
    groups: list[tuple[Any, list[Data]]] = []
    for run in runs:
        outcome = None if run.get("as_expected") is False else _outcome(run)
        for known, group in groups:
            if outcome is not None and known == outcome:
                group.append(run)
                break
        else:
            groups.append((outcome, [run]))
    return [group for _, group in groups]


def short_names(profiles: Sequence[str]) -> str:
    """Return rule sets of an engine, without its name after the first: ``llama_cpp@b9518, b10587``."""
    first, *more = profiles
    return ", ".join([first, *(name.partition("@")[2] or name for name in more)])


def _outcome(value: Any) -> Any:
    """Return data without ``NAMES``, at any depth."""
    if isinstance(value, Mapping):
        return {key: _outcome(one) for key, one in value.items() if key not in NAMES}
    return [_outcome(one) for one in value] if isinstance(value, list | tuple) else value
