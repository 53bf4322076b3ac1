"""Without Hypothesis the import ends with a line that names the extra."""

from __future__ import annotations

import subprocess
import sys

from tests.shared import ROOT

WITHOUT = """
import sys
sys.modules["hypothesis"] = None
import cachesim.strategies
"""


def test_without_hypothesis_the_import_ends_with_a_line_that_names_the_extra():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stderr.splitlines()[-1] == ("ImportError: cachesim.strategies needs hypothesis, the extra "
                                            "llm-cachesim[hypothesis]: pip install 'hypothesis>=6.122'")  # fmt: skip
