"""Scenarios from lines in notation. ``cachesim.scenarios.notation`` parses and writes the line itself.

``repr(scenario)`` is the scenario's line. ``from_line`` makes the same requests of it, with the same token numbers, if
the scenario's [words] are in the order of their first use, unused words last. Otherwise the token numbers differ. A
line does not contain the server, the model or the expectations.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Mapping

from cachesim.base.errors import BadInput, OverLimit, cut, quoted
from cachesim.engines.capabilities import Option
from cachesim.scenarios.load import has_form_of_path, neighbour
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.option_checks import check_profile, manual_of, model_named, parse_setting
from cachesim.scenarios.request_spec import make_steps, with_words
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario

_NAME = re.compile(r"[\w./-]*\.[a-z]\w{1,4}|(?![A-Za-z_]+\d)[\w./-]+")     # rather the name of a file than a line


def from_line(
    line: str, *, model: str = "GGGA", profiles: tuple[str, ...] = (DEFAULT_PROFILE,),
    server: Mapping[str, Option] | None = None, files: bool = False,
) -> Scenario:
    """Return the scenario of a line. ``profiles``: any versions of a single engine; ``files``: the model may be the
    path of a config.json or GGUF. Raise BadInput with the column (from 1) and the request (from 0) of the error."""
    engine = profiles[0].partition("@")[0]
    manual_of(engine)                    # raises for an unknown engine
    for name in profiles:
        check_profile(name, engine, None)
    try:
        words, steps = parse(line, partial(parse_setting, engine=engine))
    except BadInput as wrong:
        if isinstance(wrong, OverLimit):
            raise
        if has_form_of_path(line):
            raise BadInput("no such file or directory", file=cut(line), hint=neighbour(Path(line))) from None
        if not _NAME.fullmatch(line):
            raise
        raise BadInput(f"not a file, a scenario id or a line of requests: {quoted(line)}",
                       hint=neighbour(Path(line)) or f"as a line, {wrong.cause}") from None  # fmt: skip
    named = model_named(model, engine, files)
    options = with_words(named.server(server or {}), words)
    return Scenario(
        id="try", title="from the one-line notation", source=("cachesim",), why="", engine=engine, model=named.model,
        model_note=named.note, profiles=profiles, server=options, words=words,
        steps=make_steps(steps, words, server),
    )
