"""Arguments for amounts of work: numbers, processes, machines and limits."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, NamedTuple

from cachesim.base import limits
from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.base.limits import Limit

if TYPE_CHECKING:
    from cachesim.base.shard import Shard

LARGEST = 999_999_999         # largest number on a command line


def count(text: str) -> int:
    """Parse an integer of at least 0. Raise ArgumentTypeError."""
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"expected an integer from 0 to {LARGEST:,}, found {quoted(text)}")
    if len(text.lstrip("0")) > len(str(LARGEST)):
        raise ArgumentTypeError(f"{cut(text)} is too large: the largest accepted number is {LARGEST:,}")
    return int(text)


def tokens(text: str) -> int:
    """Parse a number of tokens, at least 1. Raise ArgumentTypeError."""
    found = count(text)
    if not found:
        raise ArgumentTypeError(f"must be 1 to {LARGEST:,}")
    return found


def number(text: str) -> float:
    """Parse a number of at least 0. Raise ArgumentTypeError."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?(e-?[0-9]{1,2})?", text):
        raise ArgumentTypeError(f"{quoted(text)} is not a number")
    return float(text)


def minutes(text: str) -> float:
    """Parse a time in minutes. Raise ArgumentTypeError."""
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) or not float(text):
        raise ArgumentTypeError(f"expected a number of minutes above 0, found {quoted(text)}")
    return float(text)


def add_jobs(parser: ArgumentParser) -> None:
    """Add ``-j``; ``args.jobs`` is at least 1."""
    parser.add_argument("-j", "--jobs", metavar="N", type=jobs, default=1,
                        help="number of processes, `auto` = number of cores (default 1)")  # fmt: skip


MANY = 20                # runs from which on several processes are faster in spite of their start


def add_jobs_by_number(parser: ArgumentParser) -> None:
    """Add ``-j`` of a command that runs independent items; ``args.jobs`` is None if it is not given."""
    parser.add_argument("-j", "--jobs", metavar="N", type=jobs, help="number of processes, `auto` = number of cores "
                        f"(default `auto` for {MANY} runs or more, else 1)")  # fmt: skip


def add_jobs_by_time(parser: ArgumentParser) -> None:
    """Add ``-j`` of a command that learns from its first run how long it takes; ``args.jobs`` is None if it is not
    given."""
    parser.add_argument("-j", "--jobs", metavar="N", type=jobs, help="number of processes, `auto` = number of cores "
                        "(default `auto` for work of some seconds, else 1)")  # fmt: skip


def processes_for(given: int | None, items: int) -> int:
    """Return the number of processes for so many items. ``given``: that of ``add_jobs_by_number``."""
    from cachesim.base.pool import cores

    if given is not None:
        return given
    return cores() if items >= MANY else 1


def jobs(text: str) -> int:
    """Parse a number of processes. Raise ArgumentTypeError."""
    from cachesim.base.pool import cores

    found = cores() if text == "auto" else count(text)
    if not found:
        raise ArgumentTypeError("must be at least 1")
    return found


def add_cluster(parser: ArgumentParser, items: str) -> None:
    """Add ``--on`` and ``--shard``, for work on other machines. ``items``: divided items, in the plural."""
    parser.add_argument("--on", metavar="dask://HOST:PORT", help="dask scheduler whose workers run the work; it must "
                        "be trusted (extra `cluster`)")  # fmt: skip
    parser.add_argument("--shard", metavar="I/N", type=shard, help=f"part I of N of the {items} to run; "
                        "cachesim merge combines the parts")  # fmt: skip


def shard(text: str) -> Shard:
    """Parse ``I/N``: part I of N, from 1. Raise ArgumentTypeError."""
    from cachesim.base.shard import MOST, Shard

    number, slash, of = text.partition("/")
    if not slash or not all(part.isascii() and part.isdigit() and len(part) < 8 for part in (number, of)):
        raise ArgumentTypeError(f"expected I/N (part I of N), found {quoted(text)}")
    if not 1 <= int(number) <= int(of) <= MOST:
        raise ArgumentTypeError(f"expected I from 1 to N and N up to {MOST:,}, found {quoted(text)}")
    return Shard(int(number), int(of))


GIB, MOST_GIB = 1 << 30, 1 << 20
_SIZE = re.compile(r"(\d{1,7}(?:\.\d{1,6})?)(gib|mib|g|m)?", re.IGNORECASE)


def memory_size(text: str) -> int:
    """Parse a size such as 32GiB, 32 or 512MiB; return bytes. Raise ArgumentTypeError."""
    found = _SIZE.fullmatch(text)
    unit = 1 << 20 if found and (found[2] or "").lower().startswith("m") else GIB
    if not found or not 0 < float(found[1]) <= MOST_GIB:
        raise ArgumentTypeError(f"expected a size such as 32GiB, found {quoted(text)}")
    return max(1, int(float(found[1]) * unit))


MOST_REPLICAS = 64
SPEED = 10_000                # tokens that a replica evaluates or generates in a second
POLICIES = ("round-robin", "least-loaded", "prefix", "session")


class ReplicaOptions(NamedTuple):
    """Servers behind a front end. ``routes``: policies to compare."""

    number: int
    routes: tuple[str, ...]
    speed: int


def add_replicas(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--replicas", metavar="N", type=_replicas, default=0, help="servers of this kind behind a "
                        "front end: what each evaluates, beside one server with the memory of all")  # fmt: skip
    parser.add_argument("--route", metavar="POLICY", dest="routes", type=_route, action="append", default=[],
                        help=f"policy that sends requests to replicas, may be repeated (default: all): "
                        f"{', '.join(POLICIES)}")  # fmt: skip
    parser.add_argument("--speed", metavar="N", type=tokens, default=0,
                        help="tokens that a replica evaluates or generates in a second, for answers without a recorded "
                        f"end (default {SPEED:,})")  # fmt: skip


def replica_options(args: Namespace) -> ReplicaOptions | None:
    """Return the options, None without ``--replicas``. Raise BadInput for ``--route`` or ``--speed`` without it."""
    if not args.replicas:
        if args.routes or args.speed:
            raise BadInput(f"{'--route' if args.routes else '--speed'} needs --replicas N")
        return None
    return ReplicaOptions(args.replicas, tuple(dict.fromkeys(args.routes or POLICIES)), args.speed or SPEED)


def _replicas(text: str) -> int:
    found = count(text)
    if not 2 <= found <= MOST_REPLICAS:
        raise ArgumentTypeError(f"must be 2 to {MOST_REPLICAS}")
    return found


def _route(text: str) -> str:
    if text not in POLICIES:
        hint = nearest(text, POLICIES) or f"one of {', '.join(POLICIES)}"
        raise ArgumentTypeError(f"unknown policy {quoted(text)} ({hint})")
    return text


def add_limits(parser: ArgumentParser, *more: Limit) -> None:
    """Add ``--limit`` for the limits of a run and ``more``."""
    names = [limit.name for limit in (*limits.OF_A_RUN, *more)]

    def limit(text: str) -> tuple[str, int]:
        name, equals, amount = text.partition("=")
        if not equals or name not in names:
            what = f"unknown limit {quoted(name)}" if equals else f"expected NAME=N, found {quoted(text)}"
            raise ArgumentTypeError(f"{what} ({nearest(name, names) or 'one of ' + ', '.join(names)})")
        return name, count(amount)

    parser.add_argument("--limit", dest="limits", metavar="NAME=N", action="append", default=[], type=limit,
                        help=f"maximum amount of work or data, may be repeated: {', '.join(names)} "
                        "(pages/limits.md)")  # fmt: skip


def lift_limits(args: Namespace) -> None:
    """Set the limits given on the command line; reset all others."""
    limits.lift(dict(getattr(args, "limits", ())))
