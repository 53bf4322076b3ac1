"""Examples of strategies.md: their failures as a person sees them. ``make docs`` renews them."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import cachesim.strategies  # noqa: F401 - what an example imports first is forgotten after it
from cachesim.engines.registry import BUILTIN
from tests.drawn_values import leave_out_constants
from tests.unit.strategies import block_manager

EXAMPLE = re.compile(r"```python\n# (?P<file>test_\w+\.py)\n(?P<code>.*?)```\n\n```text\n(?P<printed>.*?)```", re.S)
FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=200, stateful_step_count=12,
                 print_blob=False, report_multiple_bugs=False, phases=[Phase.generate, Phase.shrink])  # fmt: skip
"""Settings with which every run draws the same. The phase that explains a failure takes longest, for line numbers."""


@cache
def loaded(file: str, code: str) -> Any:
    """Return the module of an example, loaded from a file, with our block manager in place of nano-vllm's."""
    for engine in BUILTIN.values():
        engine.load_rules()              # not within the patch, after which new modules are forgotten
    with TemporaryDirectory() as folder, patch.dict(sys.modules, block_manager.modules()):
        path = Path(folder) / file
        path.write_text(code)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.__file__ = file
    return module


def failure(file: str, code: str) -> tuple[str, int]:
    """Return what a failing example prints, and the number of examples until its first failure. Hypothesis draws no
    constants of an installed cachesim."""
    leave_out_constants()
    module = loaded(file, code)
    with patch.dict(sys.modules, {module.__name__: module}):
        test = getattr(module, Path(file).stem, None)
        runs: list[bool] = []
        try:
            if test is None:
                _run_machine(module.FaultyMachine, runs)
            else:
                _run_test(test, runs)
        except AssertionError as error:
            name = type(error).__name__
            text = "\n".join([f"{name}: {error}", *getattr(error, "__notes__", [])])
            return f"{text}\n", runs.index(False) + 1
    raise AssertionError(f"{file} does not fail")


def _run_test(test: Any, runs: list[bool]) -> None:
    inner = test.hypothesis.inner_test

    @wraps(inner)
    def counted(*args: Any, **kwargs: Any) -> None:
        runs.append(False)
        inner(*args, **kwargs)
        runs[-1] = True

    with patch.object(test.hypothesis, "inner_test", counted):
        FIXED(test)()


def _run_machine(machine: Any, runs: list[bool]) -> None:
    class Counted(machine):
        def __init__(self) -> None:
            runs.append(True)
            super().__init__()

        def fault(self, text: str) -> Any:
            runs[-1] = False
            return super().fault(text)

    Counted.__name__ = Counted.__qualname__ = machine.__name__
    run_state_machine_as_test(Counted, settings=FIXED)


def renewed(text: str) -> str:
    """Return the page with what its examples print now."""
    def example(found: re.Match[str]) -> str:
        printed, _ = failure(found["file"], found["code"])
        return found[0].replace(f"```text\n{found['printed']}```", f"```text\n{printed}```")

    return EXAMPLE.sub(example, text)
