"""The point tracker of the fourth engine, for tests that need no other module of it."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

FILE = Path(__file__).parent / "blocks" / "blockpool" / "point_tracker.py"
SPEC = spec_from_file_location("fourth_point_tracker", FILE)
MODULE = sys.modules[SPEC.name] = module_from_spec(SPEC)
SPEC.loader.exec_module(MODULE)
BlockPoints, Chain = MODULE.BlockPoints, MODULE.Chain
