"""Parts of the memory that a node of the tree can have.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/component_type.py (0.5.23).
"""

from __future__ import annotations

FULL = 0
SWA = 1
MAMBA = 2
"""Slots of full attention, slots of the window pool, and the slot of a recurrent state."""
NUM_COMPONENT_TYPES = 3
LETTERS = "FSM"
"""Letters of the parts in events and recordings."""
HOST_LETTERS = ("H", "HS", "HM")
"""Letters of their copies in host memory."""
PARTS = ("rows", "window", "state")
"""Names of the parts in pictures."""
