"""A plug-in for pytest: the tests that are called like the module in the environment's NEAR come first."""

import os


def pytest_collection_modifyitems(items):
    near = os.environ.get("NEAR", "")
    items.sort(key=lambda item: not item.path.stem.startswith(f"test_{near}"))
