"""Exported tests on the installed vLLM: ``python -m tests.peers.exported_tests``.

Every case is exported with the numbers of every release that starts with its options, and run by pytest on the
installed classes. A test states the defaults of its release: it must pass if the installed release reuses the same
tokens with them, as we simulate it, and fail otherwise. Exit code 1 if one does not.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Mapping

import pytest
import vllm

from cachesim.base.errors import NotInBuild
from cachesim.engines.registry import ENGINES
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.profiles import PROFILES
from cachesim.engines.vllm.start_options import resolved
from cachesim.model import parse
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.class_export import class_program

LINES = (
    "A40>a8/A.a.B20>4/A.a.C9", "S100.A40>4/S.B40>4/S.C9", "A37>a30/A.a.B50>4/A.a.C50", "A90/B90/A.C9",
    "A90>9/B80>9{together}/A.C9/B.D3{together}",
)  # fmt: skip
SERVERS = (
    ("A", {}), ("A", {"num_gpu_blocks": 14}), ("W32 A", {"num_gpu_blocks": 40}), ("GA", {}),
    ("GA", {"prefix_match_unit": 8}), ("GGGA", {"max_num_batched_tokens": 48}), ("A", {"enable_prefix_caching": False}),
)  # fmt: skip


class Outcomes:
    """Plugin that keeps the outcome of each test by the name of its file."""

    def __init__(self) -> None:
        self.passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a test that was called, or failed before."""
        if report.when == "call" or report.failed:
            self.passed[Path(report.nodeid.partition("::")[0]).name] = report.passed


DEFAULTS = ("enable_prefix_caching", "prefix_cache_retention_interval")


def defaults(model: str, profile: str, server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a release that a program states."""
    rules = PROFILES[profile]
    found = options(resolved(rules, parse(model), {**rules.defaults, **server}))
    return {name: getattr(found, name) for name in DEFAULTS}


def exported(line: str, model: str, profile: str, server: Mapping[str, Any]) -> str:
    """Return the program of a case. Raise NotInBuild if the release does not start with the options."""
    scenario = from_line(line, model=model, profiles=(profile,), server=server)
    return class_program(scenario, profile, ENGINES["vllm"].class_test())


def rows(program: str) -> str:
    """Return the requests of a program, with the tokens that they reuse."""
    return program.partition("REQUESTS = ")[2].partition("]\n\n")[0]


def main() -> int:
    """Export and run the tests; print and return what differs."""
    engine = ENGINES["vllm"]
    installed = f"vllm@{vllm.__version__}"
    wanted: dict[str, bool] = {}
    with TemporaryDirectory() as folder:
        for number, (model, server) in enumerate(SERVERS):
            for place, line in enumerate(LINES):
                for profile in engine.line:
                    with suppress(NotInBuild):
                        text = exported(line, model, profile, server)
                        name = f"test_{number}_{place}_{profile.partition('@')[2].replace('.', '_')}.py"
                        Path(folder, name).write_text(text)
                        same = exported(line, model, installed, {**server, **defaults(model, profile, server)})
                        wanted[name] = rows(text) == rows(same)
        outcomes = Outcomes()
        pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", "--rootdir", folder, folder], plugins=[outcomes])
    wrong = sorted(name for name, passes in wanted.items() if outcomes.passed.get(name) is not passes)
    failing = sum(not passes for passes in wanted.values())
    print(f"vllm {vllm.__version__}: {len(wanted)} exported tests, {failing} of other releases must fail, "
          f"{len(wrong)} wrong outcomes {wrong}")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
