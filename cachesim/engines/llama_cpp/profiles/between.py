"""Changes that came and went between two rule sets of the main branch, in order.

A row is a field, its value from then on, and the change that brought it (`landed.LANDED` has its build). A field whose
value changed more than once between two rule sets has a row for every change; a single change needs none, because the
life time of its rule, or ``ended`` of the older rule set, names it. The commits were read, the builds were not run.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.profiles.older_builds import B8260, B8916, B9231
from cachesim.engines.llama_cpp.rules import older_checkpoint_restore as old_use
from cachesim.engines.llama_cpp.rules import prompt_cache as pc
from cachesim.engines.llama_cpp.rules import prompt_lifecycle
from cachesim.engines.shared.timeline import Dated

BETWEEN = (
    # b6685 .. b7789
    Dated("pc_update", pc.evict_fixed_tokens, "#16391"),
    Dated("pc_update", pc.evict_spare_one, "#16560"),
    Dated("ctx_pad", 1, "#16812"),
    Dated("ctx_pad", 256, "#17046"),
    Dated("window_pad", 1, "#16812"),
    Dated("window_pad", 256, "#17046"),
    Dated("trim", prompt_lifecycle.assert_if_refused, "#17267"),
    Dated("trim", prompt_lifecycle.clear_if_refused, "#18391"),
    Dated("load_failed", pc.keep_after_failed_load, "#16391"),
    Dated("load_failed", pc.clear_after_failed_load, "#17078"),
    # b8152 .. b8260
    Dated("ckpt_restore", old_use.resume_re3, "#19924"),
    Dated("ckpt_restore", B8260.ckpt_restore, "#20279"),
    # b9063 .. b9230
    Dated("spec_types", (*B8916.spec_types, "draft-simple"), "#22838"),
    Dated("spec_types", B9231.spec_types, "#22673"),
)
"""Changes between recorded rule sets, oldest first."""
