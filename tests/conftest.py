"""What all tests share: one BLAS thread, as on the command line, byte code, Hypothesis that always draws the same."""

import os
import sys

if sys.dont_write_bytecode and sys.prefix != sys.base_prefix:
    # Else every process of the suite, and each of the hundreds of commands that it starts, compiles all modules anew.
    # It lies below the environment: whoever asked for none (PYTHONDONTWRITEBYTECODE) has none in the tree.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = os.path.join(sys.prefix, "byte-code")
    sys.dont_write_bytecode = False

from cachesim.cli.main import ONE_THREAD

for name in ONE_THREAD:
    os.environ.setdefault(name, "1")       # before anything imports NumPy

from hypothesis import settings  # noqa: E402

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
