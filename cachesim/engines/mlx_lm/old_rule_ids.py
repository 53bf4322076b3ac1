"""How were rules called that once had a number instead of a verb? ``cachesim explain`` takes the old ids, too."""

from __future__ import annotations

from typing import Mapping

OLD_RULE_IDS: Mapping[str, str] = {
    "ML-ARRAYS-01": "ML-ARRAYS-MASK",
    "ML-ARRAYS-02": "ML-ARRAYS-MERGE",
    "ML-ARRAYS-03": "ML-ARRAYS-EXTEND",
    "ML-ARRAYS-04": "ML-ARRAYS-PAD",
    "ML-BATCH-01": "ML-KV-EXTEND",
    "ML-CHUNK-01": "ML-CHUNK-TRIM-FRONT",
    "ML-RING-01": "ML-RING-TRIMMABLE",
    "ML-RING-02": "ML-RING-TRIM",
    "ML-RING-03": "ML-RING-MERGE",
    "ML-RING-04": "ML-RING-EXTRACT-START",
    "ML-RING-05": "ML-RING-EXTRACT-OFFSET",
    "ML-RING-06": "ML-RING-EXTRACT-EMPTY",
    "ML-STATE-01": "ML-STATE-SAVE",
    "ML-STATE-02": "ML-STATE-RESTORE",
    "ML-STATE-03": "ML-STATE-META",
    "ML-STATE-04": "ML-STATE-ROTATED",
    "ML-STATE-05": "ML-STATE-ARRAYS",
}
"""Old family -> present one."""
