"""Arguments of mlx_lm.server by release, with their effect on the cache.

A row is the number of values (as argparse writes it, j = JSON), the spellings, and where they hold: >= and <= a release,
= a value without effect. The rows are one in a line, as the parsers have them, which makes this module long.
Source: mlx-lm 0.31.1, 0.31.3 and 0.32.2 (PyPI) mlx_lm/server.py.
"""

from __future__ import annotations

from cachesim.engines.shared.command_table import (
    MODEL,
    NO_EFFECT,
    OPEN,
    OPTION,
    CommandTable,
    table_rows,
)

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


COMMAND_TABLE = CommandTable(
    starts=(("mlx_lm.server",), ("mlx_lm", "server"), ("-m", "mlx_lm.server"), ("-m", "mlx_lm", "server")),
    arguments=table_rows("mlx_lm", {OPTION: OPTIONS, MODEL: MODELS, OPEN: NOT_SIMULATED, NO_EFFECT: WITHOUT_EFFECT}),
    releases=("mlx_lm@0.31.1", "mlx_lm@0.31.3", "mlx_lm@0.32.2"),
)
