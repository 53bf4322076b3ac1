"""Rules about adapters in older builds, newest first.

Read in the commits that the rules name and in every recorded build of the line, back to the first with adapters of a
request (#10994, b4406). No build before b11549 was run with adapters.

Not simulated: from #24843 (b9752) to #25649 (b10010) the scale of a split aLoRA is put back before a batch is decoded
again in smaller pieces; before #18263 (b7508) an empty list turns all adapters off. LC-LORA-LEAD is asked in servers
with adapters only, although #17263 concerned all.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.llama_cpp.profiles.rule_table import AdapterRules, MediaRules
from cachesim.engines.llama_cpp.rules import older_adapters as old

OF_B9765 = AdapterRules(forget=old.forget_list)                      # until #25649
OF_B7400 = replace(
    OF_B9765,
    clear=old.clear_compared,                                        # until #18263
    ids=old.ids_refused,                                             # until #18263
    start=old.start_forgotten,                                       # until #18547
)
OF_B6914 = replace(OF_B7400, lead=old.lead_asserts)                  # until #17263
OF_B6740 = replace(OF_B6914, cap=old.cap_below_zero)                 # until #16818
OF_B6685 = replace(OF_B6740, lead=old.leads_unfilled)                # until #16391
OF_B6388 = replace(OF_B6685, read=old.invocation_ignored)            # until #15327

NOT_RUN = (
    *(f"adapters.{name}" for name in AdapterRules.__dataclass_fields__),
    *(f"media.{name}" for name in MediaRules.__dataclass_fields__),
)
"""Fields of builds before b11549: no recording of them has adapters or images."""
