"""Where do the scenarios that come with cachesim lie? In the checkout, or inside the installed package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from cachesim.errors import Crash


def corpus_root() -> Path:
    """The folder of the corpus. The checkout comes first, since an editable install has no packed copy."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "scenarios").is_dir():
        return checkout / "scenarios"
    spec = find_spec("cachesim._corpus")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise Crash("the corpus of scenarios is missing from the installed package")
    return Path(places[0])
