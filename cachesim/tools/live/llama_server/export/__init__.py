"""A scenario as something that others can run: a shell script, a test, an issue."""

FORMS = {
    "script": "a shell script that needs llama-server and python3 only: it writes the tiny model",
    "curl": "a shell script for a running server, with curl and jq",
    "pytest": "a test that needs pytest and nothing else",
    "llama-server-test": "a test for the server tests of llama.cpp",
    "issue": "a bug report in the form of llama.cpp's issues",
    "toml": "a scenario file with the numbers of one rule set",
}
"""The forms, each in a line."""
