"""Exports of a scenario: shell scripts, Python tests, an issue, a scenario file."""

FORMS = {
    "script": "shell script that needs only llama-server and python3 and writes the tiny model",
    "curl": "shell script for a running server, with curl and jq",
    "pytest": "test that needs only pytest; for vLLM and SGLang, on the scheduler of their package",
    "llama-server-test": "test for the server tests of llama.cpp",
    "issue": "bug report in the form of llama.cpp's issues",
    "toml": "scenario file with the numbers of one rule set",
}
"""Description of each form."""
