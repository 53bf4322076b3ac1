"""Checks that are taken out in the process of a mutant, to see that the campaign notices."""

from __future__ import annotations

from typing import Callable, NamedTuple


class Plant(NamedTuple):
    """``take_out`` is called in the child. Mutants of ``kind`` from ``first`` on have findings that begin so."""

    name: str
    kind: str
    first: int
    found: str
    take_out: Callable[[], None]


def no_form():
    """The form of a recording is not checked."""
    from cachesim.replay import recorded_trace as trace

    trace.check_trace = lambda data, file: None


def no_depth():
    """Brackets may be nested as deeply as one likes."""
    from cachesim.base import untrusted_files

    untrusted_files._check_nesting = lambda bare, file: None


def no_cut():
    """A message repeats a value as long as it is."""
    from cachesim.base import errors

    errors.cut = lambda text, most=0: text
    errors.ECHOED = 10**9
    errors._brief.maxstring = errors._brief.maxother = 10**9


def no_limit(name):
    """A limit is as high as it can be, whatever the command line says."""

    def take_out():
        from cachesim.base import limits

        known = limits.lift
        limits.lift = lambda numbers: known({**numbers, name: 2**62})
        limits.lift({})

    return take_out


PLANTS = (
    Plant("the form of a recording", "trace", 1, "traceback", no_form),
    Plant("brackets", "trace", 8, "traceback", no_depth),
    Plant("values in messages", "scenario", 47, "error", no_cut),
    Plant("word length", "line", 115, "time", no_limit("word length")),
    Plant("new tokens", "line", 389, "time", no_limit("new tokens")),
)
