"""Mutations that the generator skips because they are not faults: no visible behaviour changes."""

NO_FAULTS: dict[str, str] = {
    "replay/schedule_search.py, _search: `0` -> `1` at 28 of reach, tried, work = -1, 0, 0":
        "a round more, of several thousand, before the search for an order stops",
    'tools/live/llama_server/recorder.py, _lost: `1` -> `2` at 91 of '
    'return one and came_to_its_end(task, len(request["prompt"]),':
        "a request without a number of tokens: no task generates -1 or -2 tokens",
    "tools/conformance/http_check/openai_client.py, _other: `2` -> `3` at 72 of places = (number, "
    "number // size * 5 + 1, number // size // ":
        "the third token of a prompt that evicts others: any token works as long as the prompts differ",
    "tools/conformance/http_check/warm_run.py, _look_alive: `7` -> `8` at 85 of said = self._one(CacheRequest(tuple("
    "tokens[(self.plays * step) % len(":
        "a token of a prompt that tests whether the server still answers: any token works",
    "tools/request_bodies/tokenizer.py, _added: `==` -> `!=` at 37 of \"normalized\": False, \"special\": kind == "
    "CONTROL}  # fmt: ski":
        "tokens of both kinds match verbatim; only decoding distinguishes them, and nothing decodes",
}  # fmt: skip
"""Name of the mutation -> reason."""
