"""``python -m tests.live.check_mlx``: test of ``cachesim check`` on the real mlx_lm.server 0.32.2.

Needs an environment with MLX (``make peers`` makes it). Tiny random models are written with their own tokenizer. Each
fault is searched for on a separate server, by its shortest history and by the default check; the last rows must raise
no alarm. Exit code 1 if a row is not as expected.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.live.llama_server.process import HOST, Process
from tests.live.check_mlx_model import write_model
from tests.live.check_server import ready

LOAD = 120                   # seconds to import MLX and load a model
SOUND = ("same", "reuse", "isolation", "books")


class Row(NamedTuple):
    """A server and its expected findings. ``fails``: properties that must fail, "" = none may."""

    what: str
    model: str
    fails: str
    histories: tuple = ()
    only: tuple = SOUND
    draft: str = ""


ROWS = (
    Row("7.1 a prompt that is all of a conversation", "llama", "answers", ("A5>a3/A.a",), ("same",)),
    Row("7.1 a prompt without its last token, recurrent", "mamba2", "answers", ("A5>g2/A[:4]",), ("same",)),
    Row("7.1 the same, hybrid", "qwen3_next", "answers", ("A5>g2/A[:4]",), ("same",)),
    Row("7.3 prompts of different lengths together", "nemotron_h", "burst",
        ("A900/B5{together}/C40{together}/D13{together}",), ("isolation",)),
    Row("7.4 a draft model: the key has a token more", "llama", "append", draft="llama", only=("same",)),
    Row("sound: full attention", "llama", ""),
    Row("sound: windows", "gemma3", ""),
    Row("sound: convolution and attention", "lfm2", ""),
)


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.check_mlx", description=__doc__)
    parser.add_argument("--requests", type=int, default=3000, help="of one server")
    parser.add_argument("--row", type=int, action="append", help="rows to play, from 0 (default: all)")
    args = parser.parse_args(argv)
    bad = 0
    with TemporaryDirectory(prefix="cachesim-") as folder:
        for number, row in enumerate(ROWS):
            if args.row is None or number in args.row:
                bad |= look(Path(folder), row, args.requests)
    return int(bad)


def look(folder, row, requests):
    """Run a row and print it; return True if it is not as expected."""
    with started(folder, row.model, row.draft) as url:
        http = Http(url, 60, requests)
        try:
            server = identify_server(http)
            found = check(http, server, CheckOptions(row.only, row.histories, examples=20))
        finally:
            http.close()
    failed = {one.name: one.finding.line for one in found.report.results if one.state == "failed" and one.finding}
    good = row.fails in failed if row.fails else not failed
    verdict = f"SERVER {found.server_end.upper()}" if found.server_end else "WRONG" if failed else "no alarm"
    print(f"{'ok ' if good else 'BAD'} {row.what:<48} {row.model:<11} {verdict:<12}{found.requests:>6} requests  "
          f"{' '.join(f'{name}: {line}' for name, line in failed.items())}", flush=True)  # fmt: skip
    return not good


@contextmanager
def started(folder, model, draft):
    """Start a server; yield its URL. ``draft``: the draft model, with other weights."""
    words = [sys.executable, "-m", "mlx_lm", "server", "--model", _written(folder, model, 0)]
    words += ["--draft-model", _written(folder, draft, 1)] if draft else []
    os.environ["HF_HUB_OFFLINE"] = "1"

    def command(port):
        return [*words, "--host", HOST, "--port", port, "--log-level", "ERROR"]

    with Process(command, folder / "log") as process:
        process.wait(lambda: ready(process.url), LOAD, "loading the model")
        yield process.url


def _written(folder, model, seed):
    place = folder / f"{model}-{seed}"
    if not place.exists():
        write_model(place, model, seed)
    return place


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
