"""How much of anything is allowed? One table for everything that cachesim refuses because there is too much of it.

A limit protects the machine (its memory: nothing read from elsewhere may take more than some hundred MiB) or only the
user's patience; one of the second kind is always lifted by a flag. Every refusal names the limit and its flag, and
pages/limits.md shows this table (``make docs`` renews it).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

from cachesim.base.errors import BadInput

MACHINE, PATIENCE = "the machine", "your patience"
"""What a limit protects."""


@dataclass(slots=True, eq=False)
class Limit:
    """At most ``value`` ``unit`` of something. ``of``: what is counted, and where; ``protects``: MACHINE or PATIENCE;
    ``flag``: the option that takes another number, "" = there is none. ``now``: the number that holds in this process,
    the table's or the one given with the flag; only ``lift`` sets it."""

    name: str
    value: int
    unit: str
    of: str
    protects: str
    flag: str = ""
    now: int = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.value

    def check(self, found: int, what: str, *, file: str = "", line: int | None = None) -> None:
        """Raise BadInput if ``found`` is more than allowed. ``what`` has too much: a word, a request, a file."""
        if found > self.now:
            raise self.passed(f"{what}: {found:,} {self.unit}", file=file, line=line)

    def passed(self, what: str, *, file: str = "", line: int | None = None) -> BadInput:
        """The error to raise for ``what``, of which there is too much."""
        hint = f"{self.flag} N allows more" if self.flag else ""
        return BadInput(f"{what}, at most {self.now:,} {self.unit} are allowed", file=file, line=line, hint=hint)


NEW_TOKENS = Limit("new tokens", 1_000_000, "tokens", "evaluated and generated in one run", PATIENCE, "--max-tokens")
SAMPLED_TOKENS = Limit("sampled tokens", 16_384, "tokens", "generated without being forced", PATIENCE, "--max-sampled")
PASSES = Limit("micro-batches", 100_000, "micro-batches", "of one run, a slot file as ten", PATIENCE, "--max-passes")
EXACT_WORK = Limit("exact work", 400_000, "units", "a token in a layer, or 300 rows read", PATIENCE, "--max-exact")
JUDGED_TOKENS = Limit("judged tokens", 2**22, "tokens", "all restore points of a run", PATIENCE, "--max-judged")
SLOTS = Limit("slots", 256, "slots", "a server whose source names no limit", MACHINE)
SPINNING = Limit("spinning", 10_000, "rounds", "in which a server gets nowhere while a later request waits", MACHINE)
ORDERS = Limit("orders", 600, "orders", "tried for requests recorded together", PATIENCE, "--max-orders")
ORDER_WORK = Limit("order work", 500_000, "tokens", "and rounds of these orders", PATIENCE, "--max-order-work")
PROMPT_TOKENS = Limit("prompt tokens", 32_000_000, "tokens", "all prompts of a scenario, reused or not", MACHINE)
WORKLOAD_TOKENS = Limit("workload", 48_000_000, "tokens", "of all requests of a server", MACHINE, "--max-workload")
WORD_LENGTH = Limit("word length", 1_000_000, "tokens", "one word of a scenario", MACHINE)
LAYERS = Limit("layers", 64, "layers", "a model", MACHINE)
WINDOW = Limit("window", 2**20, "tokens", "the window of a W layer", MACHINE)
EXACT_ROWS = Limit("exact attention", 2**19, "rows", "one softmax, whose sum must stay exact", MACHINE)
SCENARIO_BYTES = Limit("scenario file", 2**20, "bytes", "a TOML file", MACHINE)
TRACE_BYTES = Limit("recording", 2**26, "bytes", "a JSON file", MACHINE, "--max-bytes")
JSON_VALUES = Limit("JSON values", 4_000_000, "values", "brackets, commas, colons of a file", MACHINE, "--max-values")
SLOT_FILE_BYTES = Limit("slot file", 2**30, "bytes", "a saved slot", MACHINE)
LOG_REQUESTS = Limit("log requests", 10_000, "requests", "of one log", PATIENCE, "--max-log-requests")
REBUILT = Limit("rebuilt requests", 400, "requests", "of a log that is played", PATIENCE, "--max-rebuilt")
SOUGHT = Limit("log search", 270_000, "units", "of work: a token that is generated", PATIENCE, "--max-sought")
BODY_BYTES = Limit("request bodies", 2**27, "bytes", "all files of one import", MACHINE, "--max-body-bytes")
BODIES = Limit("bodies", 5_000, "requests", "of one import of request bodies", PATIENCE, "--max-bodies")
RENDERED = Limit("rendered prompts", 2**27, "characters", "of all request bodies of one import", MACHINE)
TEMPLATE_TIME = Limit("template time", 20, "CPU seconds", "a chat template, for all requests", MACHINE)
NESTING = Limit("nesting", 32, "levels", "tables, lists and objects within each other, in any file", MACHINE)

TABLE = tuple(one for one in list(globals().values()) if isinstance(one, Limit))
"""All limits, in the order in which the documents show them: that of their definitions above."""

OF_A_RUN = (NEW_TOKENS, SAMPLED_TOKENS, PASSES, EXACT_WORK, JUDGED_TOKENS)
"""Those that every command which runs something can lift."""


def lift(numbers: Mapping[str, int]) -> None:
    """From now on these numbers hold, by the names of their limits, and those of the table for all others. A process
    that is started anew (a worker) must be told: ``lift(lifted())``."""
    for limit in TABLE:
        limit.now = numbers.get(limit.name, limit.value)


def lifted() -> dict[str, int]:
    """The numbers that were lifted, by name."""
    return {limit.name: limit.now for limit in TABLE if limit.now != limit.value}
