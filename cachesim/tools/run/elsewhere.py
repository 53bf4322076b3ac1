"""``--on dask://HOST:PORT``: work on the machines of a cluster, for every command that has it."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator

from cachesim.base.console import note
from cachesim.base.errors import BadInput, quoted
from cachesim.base.pool import Done


def check_elsewhere(address: str | None, profiles: Iterable[str]) -> None:
    """Raise BadInput where work is to be done on other machines (None = it is not) under a rule set of a file, which
    they do not have."""
    from cachesim.engines.rule_files import digest

    if address and any(digest(name) for name in profiles if name):
        raise BadInput(f"--on {quoted(address)}: other machines do not have the file of rules",
                       hint="install it as a package with an entry point cachesim.profiles")  # fmt: skip


def played_elsewhere(
    address: str, function: str, payloads: Iterable[str], left: Callable[[], float | None] = lambda: None
) -> Iterator[Done[str, str]]:
    """What the workers of a cluster make of JSON strings, as it comes; see ``Cluster.each``. Raises BadInput where a
    cluster cannot be had."""
    from cachesim.base.cluster import Cluster

    with Cluster(address) as cluster:
        if not cluster.threads():
            note(f"{address} has no workers yet: waiting for one")
        yield from cluster.each(function, payloads, left)
