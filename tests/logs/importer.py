"""The importer under test: the statements about an excerpt, without the reconstruction of its requests."""

from __future__ import annotations

from itertools import islice
from typing import Any, Mapping, Sequence

from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.recognise import HEAD, engine_of_log, grammars


def statements(lines: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the statements about these lines as data; [] if no line belongs to a known server."""
    engine = engine_of_log(islice(lines, HEAD))
    if engine is None:
        return []
    return [said.as_data() for said in conclude(read_session(engine, grammars()[engine], lines)).statements]
