"""Mutations that the generator leaves out because they are no faults: nothing that anybody can see is another."""

NO_FAULTS: dict[str, str] = {
    "replay/arrival_order.py, _search: `0` -> `1` at 28 of reach, tried, work = -1, 0, 0":
        "one round more of some thousands after which the search for an order is given up",
}  # fmt: skip
"""Name of the fault -> why it is none."""
