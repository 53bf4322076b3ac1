"""Output of watched KV events: a line or a JSON object for each row, then the totals."""

from __future__ import annotations

import sys
from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.base.console import say, say_json
from cachesim.base.errors import counted, stdout_errors
from cachesim.tools.server_logs.kv_events.events_report import missed_text, totals_text

SCHEMA = 1                      # version of the JSON form of rows and totals


class EventOutput(NamedTuple):
    """Output of rows and totals to stdout. Each row is flushed."""

    as_json: bool

    def row(self, row: Mapping[str, Any]) -> None:
        """Print a row."""
        if self.as_json:
            say_json({"schema": SCHEMA, "missed": dict(row)})
        else:
            say(missed_text(dict(row)))
        with stdout_errors():
            sys.stdout.flush()

    def end(self, totals: Mapping[str, Any]) -> None:
        """Print the totals, after the last row."""
        if self.as_json:
            say_json({"schema": SCHEMA, "events": dict(totals)})
            return
        for line in (*totals_text(dict(totals)), *_remarks(totals)):
            say(line)


def _remarks(totals: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on the source and on the bodies."""
    if not totals["answered"]:
        yield f"no publisher answered at {totals['file']}"
    if totals["replayed"]:
        yield f"{counted(totals['replayed'], 'message')} read again from the publisher"
    if totals["bodies_without_tokens"]:
        without = counted(totals["bodies_without_tokens"], "request")
        yield f"{without} without token ids, not joined (--tokenizer, --template)"
    if totals["bodies_forgotten"]:
        yield f"{counted(totals['bodies_forgotten'], 'prompt')} forgotten: too many tokens"
