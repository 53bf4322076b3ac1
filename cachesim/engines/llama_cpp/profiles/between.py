"""Changes that came and went between two rule sets of the main branch, in order.

A row is a field, its value from then on, and the change that brought it (`landed.LANDED` has its build). A field whose
value changed more than once between two rule sets has a row for every change; a single change needs none, because the
life time of its rule, or ``ended`` of the older rule set, names it. The commits were read, the builds were not run.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.profiles.b10587 import WITH_BLOCKS, WITH_COMPRESSED
from cachesim.engines.llama_cpp.profiles.older_builds import B7789, B8260, B8916, B9231
from cachesim.engines.llama_cpp.rules import older_checkpoint_restore as old_use
from cachesim.engines.llama_cpp.rules import older_slot_selection
from cachesim.engines.shared.timeline import DatedChange

BETWEEN = (
    # b7400 .. b7789
    DatedChange("children", older_slot_selection.children_last, "#18263"),
    DatedChange("children", older_slot_selection.children_selected, "#18663"),
    DatedChange("children", B7789.children, "#18789"),
    # b8152 .. b8260
    DatedChange("ckpt_restore", old_use.resume_re3, "#19924"),
    DatedChange("ckpt_restore", B8260.ckpt_restore, "#20279"),
    # b9765 .. b10587
    DatedChange("memories", WITH_COMPRESSED, "b10229"),
    DatedChange("memories", WITH_BLOCKS, "b10566"),
    # b9063 .. b9230
    DatedChange("spec_types", (*B8916.spec_types, "draft-simple"), "#22838"),
    DatedChange("spec_types", B9231.spec_types, "#22673"),
)
"""Changes between recorded rule sets, oldest first."""
