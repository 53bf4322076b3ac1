"""A driver without its own operations has none."""

from __future__ import annotations

import pytest

from cachesim.strategies import CacheDriver

OPERATIONS = {"insert": ((1,),), "look_up": ((1,),), "evict": (0,), "fork": (0,), "trim": (0, 1), "restore": ((1,),),
              "read": (0,), "blocks": (0,), "reference_counts": (), "free_blocks": (), "entries": ()}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_that_of_the_driver_or_none(name):
    driver = CacheDriver()
    with pytest.raises(NotImplementedError):
        getattr(driver, name)(*OPERATIONS[name])
    own = type("Own", (CacheDriver,), {name: lambda self, *given: given})
    assert getattr(own(), name)(*OPERATIONS[name]) == OPERATIONS[name]
    assert not any(CacheDriver.has(one) for one in OPERATIONS)
    assert [one for one in OPERATIONS if own.has(one)] == [name]
