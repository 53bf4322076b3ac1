"""Plug-in for pytest: tests named after the module in the environment variable NEAR run first, and Hypothesis does not
shrink failures, which can take minutes."""

import os

from hypothesis import Phase, settings


def pytest_configure():
    settings.register_profile("planted", settings(), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("planted")


def pytest_collection_modifyitems(items):
    near = os.environ.get("NEAR", "")
    items.sort(key=lambda item: not item.path.stem.startswith(f"test_{near}"))
