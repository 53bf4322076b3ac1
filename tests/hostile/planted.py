"""Planted faults: checks that are removed in the process of a mutant, to test that the campaign detects it."""

from __future__ import annotations

from typing import Callable, NamedTuple


class Plant(NamedTuple):
    """Removal of a check. ``take_out`` is called in the child."""

    name: str
    kind: str                        # kind of the mutants that detect it
    first: int                       # number of the first mutant to try
    found: str                       # class of the expected finding
    take_out: Callable[[], None]


def no_form():
    """Remove the check of a recording's structure."""
    from cachesim.replay import recorded_trace as trace

    trace.check_trace = lambda data, file: None


def no_depth():
    """Remove the limit on nested brackets."""
    from cachesim.base import untrusted_files

    untrusted_files._check_nesting = lambda bare, file: None


def no_cut():
    """Remove the truncation of values in messages."""
    from cachesim.base import errors

    errors.cut = lambda text, most=0: text
    errors.ECHOED = 10**9
    errors._brief.maxstring = errors._brief.maxother = 10**9


def no_limit(name):
    """Return a function that raises a limit to the maximum, whatever the command line sets."""

    def take_out():
        from cachesim.base import limits

        known = limits.lift
        limits.lift = lambda numbers: known({**numbers, name: 2**62})
        limits.lift({})

    return take_out


def no_bound():
    """Remove the limits on memory of the child that parses foreign files."""
    from cachesim.base import parser_process

    parser_process.bound = lambda mebibytes: None


def no_escape():
    """Remove the escapes of texts in comments of exported programs."""
    from cachesim.tools.live.llama_server.export import program_text

    program_text.comment_line = lambda text: f"# {text}"


PLANTS = (
    Plant("the form of a recording", "trace", 1, "traceback", no_form),
    Plant("brackets", "trace", 730, "traceback", no_depth),
    Plant("values in messages", "scenario", 250, "error", no_cut),
    Plant("word length", "line", 1534, "time", no_limit("word length")),
    Plant("memory of a parser", "template", 386, "memory", no_bound),
    Plant("brackets of a reply", "http", 158, "traceback", no_depth),
    Plant("texts in comments", "export", 995, "traceback", no_escape),
)
