"""Arguments of mlx_lm.server by release, with their effect on the cache.

A row is the number of values (as argparse writes it, j = JSON), the spellings, and their conditions: >= and <= name a
release, = a value without effect. A row is one line, which makes this module long.
Source: mlx-lm 0.31.1, 0.31.3 and 0.32.2 (PyPI) mlx_lm/server.py.
"""

from __future__ import annotations

import re

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.command_table import CommandTable, ParsedArgument, release_names, table_rows

OPTIONS = """
1 --decode-concurrency
1 --draft-model
1 --num-draft-tokens
1 --prefill-step-size
1 --prompt-cache-bytes
1 --prompt-cache-size
1 --prompt-concurrency
"""

MODELS = """
1 --model
"""

NOT_SIMULATED = """
1 --kv-bits >=0.32.2
0 --pipeline
1 --quantized-kv-start >=0.32.2
"""

WITHOUT_EFFECT = """
1 --adapter-path
1 --allowed-origins >=0.31.3
1 --chat-template
j --chat-template-args
1 --host
1 --kv-group-size >=0.32.2
1 --log-level
1 --max-tokens
1 --min-p
1 --port
1 --temp
1 --top-k
1 --top-p
0 --trust-remote-code
0 --use-default-chat-template
"""

_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(|M|G|MB|GB)", re.IGNORECASE)
_UNITS = {"": 1, "M": 10**6, "G": 10**9, "MB": 10**6, "GB": 10**9}
MOST_BYTES = 2**31 - 1


def read_bytes(text: str) -> ParsedArgument:
    """Read a size such as 70G. A size above the largest option is a limit that a simulated model does not reach."""
    found = _SIZE.fullmatch(text)
    if not found:
        raise BadInput(f"expected a size such as 4GB, found {quoted(text)}")
    size = int(float(found[1]) * _UNITS[found[2].upper()])
    return ParsedArgument({"prompt_cache_bytes": size}) if size <= MOST_BYTES else ParsedArgument(limits=(text,))


COMMAND_TABLE = CommandTable(
    starts=(("mlx_lm.server",), ("mlx_lm", "server"), ("-m", "mlx_lm.server"), ("-m", "mlx_lm", "server")),
    arguments=table_rows(
        "mlx_lm", options=OPTIONS, models=MODELS, not_simulated=NOT_SIMULATED, no_effect=WITHOUT_EFFECT,
    ),
    releases=release_names("mlx_lm", "0.31.1 0.31.3 0.32.2"),
    readers={"--prompt-cache-bytes": read_bytes},
)
