"""Mutations that the generator leaves out because they are no faults: nothing that anybody can see is another."""

NO_FAULTS: dict[str, str] = {
    "replay/schedule_search.py, _search: `0` -> `1` at 28 of reach, tried, work = -1, 0, 0":
        "one round more of some thousands after which the search for an order is given up",
    'tools/live/llama_server/recorder.py, _lost: `1` -> `2` at 91 of '
    'return one and came_to_its_end(task, len(request["prompt"]),':
        "a request that names no number of tokens: no task has generated -1 of them, and none -2",
    "tools/conformance/http_check/openai_client.py, _other: `2` -> `3` at 72 of places = (number, "
    "number // size * 5 + 1, number // size // ":
        "the third token of a prompt that pushes others out: any token will do as long as the prompts differ",
    "tools/conformance/http_check/warm_run.py, _look_alive: `7` -> `8` at 85 of said = self._one(CacheRequest(tuple("
    "tokens[(self.plays * step) % len(":
        "a token of a prompt that shows whether the server still answers: any token will do",
    "tools/request_bodies/tokenizer.py, _added: `==` -> `!=` at 37 of \"normalized\": False, \"special\": kind == "
    "CONTROL}  # fmt: ski":
        "tokens of both kinds are found in a text as they stand; only decoding tells them apart, and nothing decodes",
}  # fmt: skip
"""Name of the fault -> why it is none."""
