"""Table of limits: everything that cachesim refuses because it is too large.

A limit protects the machine (data read from a file takes at most a few hundred MiB of memory) or the user's time. Every
limit that protects time can be raised with ``--limit``. An error names the limit and the option. pages/limits.md shows
the table (``make docs`` renews it).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

from cachesim.base.errors import OverLimit

MACHINE, TIME = "the machine", "your time"
"""Values of ``Limit.protects``."""


@dataclass(slots=True, eq=False)
class Limit:
    """Maximum for a quantity."""

    name: str                 # also in ``--limit NAME=N``
    value: int                # default maximum
    unit: str                 # unit of ``value``, in the plural
    subject: str              # limited quantity: a noun phrase for help texts and pages/limits.md
    protects: str             # MACHINE or TIME
    is_raisable: bool = False    # ``--limit`` raises it; limits that protect TIME always are
    now: int = field(init=False)    # maximum in this process; only ``lift`` changes it

    def __post_init__(self) -> None:
        self.now = self.value
        self.is_raisable |= self.protects == TIME

    @property
    def option(self) -> str:
        """Option that raises the limit, "" if it is fixed."""
        return f"--limit {self.name}=N" if self.is_raisable else ""

    def check(self, found: int, what: str, *, file: str = "", line: int | None = None) -> None:
        """Raise OverLimit if the amount ``found`` [``unit``] exceeds ``now``. ``what``: the word, request or file
        that has this amount."""
        if found > self.now:
            raise self.exceeded(f"{what}: {found:,} {self.unit}", file=file, line=line)

    def exceeded(self, what: str, *, file: str = "", line: int | None = None) -> OverLimit:
        """Return the error for ``what``, which exceeds the limit."""
        hint = f"{self.option} allows more" if self.is_raisable else ""
        return OverLimit(f"{what}, at most {self.now:,} {self.unit} are allowed", file=file, line=line, hint=hint)


NEW_TOKENS = Limit("tokens", 1_000_000, "tokens", "evaluation and generation in a run", TIME)
SAMPLED_TOKENS = Limit("sampled", 16_384, "tokens", "generation in a run, not forced", TIME)
PASSES = Limit(
    "passes", 100_000, "micro-batches",
    "of a run; request, restart or slot file 10, 128 looks at stored objects 1", TIME
)  # fmt: skip
EXACT_WORK = Limit("exact", 400_000, "work units", "1 per token in a layer, or 300 rows read; cold runs apart", TIME)
JUDGED_TOKENS = Limit("judged", 2**22, "tokens", "length of all restore points of a run, 16 more for each", TIME)
SLOTS = Limit("slots", 256, "slots", "slots of a server whose source sets no maximum", MACHINE)
SPINNING = Limit("spinning", 10_000, "rounds", "rounds without progress while a later request waits", MACHINE)
ORDERS = Limit("orders", 600, "orders", "orders tried for requests recorded together", TIME)
ORDER_WORK = Limit("order-work", 30_000, "tokens", "work budget for the orders of a recording", TIME)
PROMPT_TOKENS = Limit("prompt tokens", 32_000_000, "tokens", "all prompts of a scenario, reused or not", MACHINE)
WORKLOAD_TOKENS = Limit("workload", 48_000_000, "tokens", "all requests of a server", MACHINE, is_raisable=True)
WORD_LENGTH = Limit("word length", 1_000_000, "tokens", "length of a word in a scenario", MACHINE)
LAYERS = Limit("layers", 64, "layers", "layers of a model", MACHINE)
WINDOW = Limit("window", 2**20, "tokens", "window of a W layer", MACHINE)
EXACT_ROWS = Limit("exact attention", 2**19, "rows", "rows of a softmax whose sum must stay exact", MACHINE)
SCENARIO_BYTES = Limit("scenario file", 2**20, "bytes", "size of a TOML file", MACHINE)
RULE_LINE = Limit("rule file line", 10_000, "characters", "length of a line of a rule file", MACHINE)
TRACE_BYTES = Limit("bytes", 2**26, "bytes", "size of a JSON file", MACHINE, is_raisable=True)
KV_EVENT_BYTES = Limit("kv-event file", 2**24, "bytes", "size of a msgpack file of KV events", MACHINE)
KV_MESSAGE_BYTES = Limit("kv message", 2**22, "bytes", "a message of KV events before `watch`; 64 wait", MACHINE)
KV_BLOCKS = Limit("kv blocks", 2**19, "blocks", "blocks of KV events that `watch` keeps; more are forgotten", MACHINE)
JSON_VALUES = Limit("values", 4_000_000, "values", "brackets, commas, colons in a file", MACHINE, is_raisable=True)
SLOT_FILE_BYTES = Limit("slot file", 2**30, "bytes", "size of a saved slot", MACHINE)
WATCHED_BYTES = Limit("watched", 2**28, "bytes", "bodies, prompts and queues that `watch` holds", MACHINE)
WATCHED_VALUES = Limit("watched values", 2**18, "values", "brackets, commas, colons in a body before `watch`", MACHINE)
LOG_REQUESTS = Limit("log-requests", 10_000, "requests", "requests in a log", TIME)
LOG_STATEMENTS = Limit("log statements", 50_000, "statements", "statements about a log", MACHINE)
REBUILT = Limit("rebuilt", 400, "requests", "requests of a log that is simulated", TIME)
SOUGHT = Limit("sought", 270_000, "work units", "log reconstruction; a token costs 1, a micro-batch 4", TIME)
BODY_BYTES = Limit("body-bytes", 2**27, "bytes", "size of all files of an import", MACHINE, is_raisable=True)
BODIES = Limit("bodies", 5_000, "requests", "requests in an import of request bodies", TIME)
RENDERED = Limit("rendered prompts", 2**27, "characters", "total length of the rendered prompts of an import", MACHINE)
PARSER_TIME = Limit("parser-time", 8, "CPU seconds", "parsing a template, tokenizer or GGUF; 4 more per MiB of prompts",
                    TIME)  # fmt: skip
PARSER_MEMORY = Limit("parser-memory", 500, "MiB", "address space while parsing these", MACHINE, is_raisable=True)
PARSER_OUTPUT = Limit("parser-output", 2**24, "bytes", "result of parsing these; 8 more per byte of prompts", MACHINE,
                      is_raisable=True)  # fmt: skip
REPLY_BYTES = Limit("reply", 2**24, "bytes", "size of a server's reply", MACHINE)
NESTING = Limit("nesting", 32, "levels", "nesting of tables, lists and objects in a file", MACHINE)

TABLE = tuple(limit for limit in list(globals().values()) if isinstance(limit, Limit))
"""All limits, in the order of their definitions above, which is also the order in the documents."""

OF_A_RUN = (NEW_TOKENS, SAMPLED_TOKENS, PASSES, EXACT_WORK, JUDGED_TOKENS)
"""Limits of a run; every command that runs scenarios can raise them."""
OF_AN_IMPORT = (LOG_REQUESTS, REBUILT, SOUGHT, BODIES, BODY_BYTES, PARSER_TIME, PARSER_MEMORY, PARSER_OUTPUT)
"""Limits of an import of logs and request bodies."""


def lift(numbers: Mapping[str, int]) -> None:
    """Set the maximum of the named limits and reset all other limits to their defaults. A new process (a worker) has
    the defaults: call ``lift`` there with the result of ``lifted()``."""
    for limit in TABLE:
        limit.now = numbers.get(limit.name, limit.value)


def lifted() -> dict[str, int]:
    """Return the maximum of each limit that differs from its default, by name."""
    return {limit.name: limit.now for limit in TABLE if limit.now != limit.value}
