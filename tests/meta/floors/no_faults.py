"""Mutations that the generator leaves out because they are no faults: nothing that anybody can see is another."""

NO_FAULTS: dict[str, str] = {
    "replay/arrival_order.py, _search: `0` -> `1` at 28 of reach, tried, work = -1, 0, 0":
        "one round more of some thousands after which the search for an order is given up",
    'tools/live/llama_server/recorder.py, _lost: `1` -> `2` at 91 of '
    'return one and came_to_its_end(task, len(request["prompt"]),':
        "a request that names no number of tokens: no task has generated -1 of them, and none -2",
}  # fmt: skip
"""Name of the fault -> why it is none."""
