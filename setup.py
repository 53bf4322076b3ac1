"""Packages of the distribution: every folder with modules, and the corpus, which lies outside of the package.

Everything else stands in pyproject.toml. Its ``packages.find`` cannot be combined with a package from elsewhere.
"""

from setuptools import find_namespace_packages, setup

WITHOUT_MODULES = ("cachesim.pages", "cachesim.engines.evidence", "*.__pycache__")
FOUND = find_namespace_packages(include=("cachesim", "cachesim.*"), exclude=WITHOUT_MODULES)

setup(packages=["cachesim._corpus", *FOUND])
