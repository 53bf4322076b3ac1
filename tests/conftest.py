"""Setup of all tests: a single BLAS thread (as on the command line), cached byte code, and deterministic Hypothesis
draws."""

import os
import sys

if sys.dont_write_bytecode and sys.prefix != sys.base_prefix:
    # Otherwise every process of the suite, and each of the hundreds of commands that it starts, compiles all modules.
    # Byte code is stored below the environment: PYTHONDONTWRITEBYTECODE asks for none in the tree.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = os.path.join(sys.prefix, "byte-code")
    sys.dont_write_bytecode = False

from cachesim.base.console import WIDTH, OutputOptions
from cachesim.base.limits import lift
from cachesim.cli.main import ONE_THREAD

for name in ONE_THREAD:
    os.environ.setdefault(name, "1")       # before anything imports NumPy

from hypothesis import settings  # noqa: E402

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")


def pytest_runtest_teardown():
    """Restore the output options and limits, which the command line sets for its whole process."""
    lift({})
    OutputOptions.quiet, OutputOptions.colour, OutputOptions.columns = False, "auto", WIDTH
