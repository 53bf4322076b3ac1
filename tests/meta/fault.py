"""What is a planted fault?"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """The text ``old``, which stands once in the engine and what it shares with others, becomes ``new``. ``named``: the
    issue that began this asks for it. ``how`` is the mutation of a generated one ("" = written by hand), ``rule`` the
    function that it lies in, as (module, name). ``profiles``: where to look for it, () = where all are looked for."""

    name: str
    old: str
    new: str
    named: bool = False
    engine: str = "llama_cpp"
    how: str = ""
    rule: tuple[str, str] = ("", "")
    profiles: tuple[str, ...] = ()
