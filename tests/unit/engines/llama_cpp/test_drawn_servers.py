"""A seed is the same server of a search in every version."""

from __future__ import annotations

from tests.unit.engines.drawn_servers import file_of, lines


def test_a_seed_draws_the_server_of_the_file() -> None:
    assert [*lines("llama_cpp")] == file_of("llama_cpp").read_text("utf-8").splitlines()
