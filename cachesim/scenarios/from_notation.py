"""Which scenario does a line stand for? The line itself is read and written by ``cachesim.scenarios.notation``.

Reading ``repr(scenario)`` back gives the same requests if [words] lists the words in the order of their first use and
no unused word before a used one; otherwise the same requests with tokens renumbered. Server, model and expectations are
no part of a line.
"""

from __future__ import annotations

from functools import partial
from typing import Mapping

from cachesim.engines.capabilities import Option
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.option_checks import check_profile, manual_of, model_named, parse_setting
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario


def from_line(
    line: str, *, model: str = "GGGA", profiles: tuple[str, ...] = (DEFAULT_PROFILE,),
    server: Mapping[str, Option] | None = None,
) -> Scenario:
    """The scenario that a line stands for. ``profiles`` are of one engine, of any version. Raises BadInput naming the
    column (from 1) and the request (from 0) that are wrong."""
    engine = profiles[0].partition("@")[0]
    manual_of(engine)                    # refuses an unknown one
    for name in profiles:
        check_profile(name, engine, None)
    words, steps = parse(line, partial(parse_setting, engine=engine))
    named = model_named(model, engine)
    return Scenario(
        id="try", title="from the one-line notation", source=("cachesim",), why="", engine=engine, model=named.model,
        model_note=named.note, profiles=profiles, server=dict(server or {}), words=words,
        steps=make_steps(steps, words, server),
    )
