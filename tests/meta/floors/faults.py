"""All planted faults of the packages above the engines: those written by hand, then those generated."""

from __future__ import annotations

from tests.meta.floors.above import ABOVE
from tests.meta.floors.below import BELOW
from tests.meta.floors.generate import generated
from tests.meta.floors.plant import ROOT
from tests.meta.floors.tools import TOOLS

WRITTEN = [*BELOW, *ABOVE, *TOOLS]
GENERATED = generated(ROOT)
FAULTS = [*WRITTEN, *GENERATED]
