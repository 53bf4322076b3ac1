"""The texts from which tests in Python are put together; `@NAME@` is filled in."""

ALONE = '''\
URL = os.environ.get("URL", "http://127.0.0.1:8080")
TOLERANCE = float(os.environ.get("TOLERANCE", "@TOLERANCE@"))   # of log-probabilities
'''
TEST_ALONE = '''\
def test_@NAME@():
    """@TITLE@"""
    @WORDS@
    talk = cold = Talk(URL)
    assert talk.request("GET", "/health")[0] == 200, f"no llama-server answers at {URL}"
@HISTORY@
    said = {number: talk.verdict(number, talk.cold(number, cold), TOLERANCE) for number in @NUMBERS@}
    assert {number: one for number, one in said.items() if "DIFFERS" in one or "HTTP 000" in one} == {}
'''
IN_TREE = '''\
TOLERANCE = @TOLERANCE@   # of log-probabilities


def make_server(tmp_path, flags):
    """A server with exact arithmetic; ``flags`` are those that ServerProcess has no field for."""
    server = ServerProcess()
    server.model_hf_repo = server.model_hf_file = None
    server.model_file = f"{tmp_path}/@FILE@"
    server.n_threads, server.fa, server.ctk, server.ctv = 1, "off", "f32", "f32"
    server.slot_save_path = f"{tmp_path}/"
    @FIELDS@
    binary = os.environ.get("LLAMA_SERVER_BIN_PATH", "../../../build/bin/llama-server")
    server.server_path = f"{tmp_path}/llama-server"
    with open(server.server_path, "w") as file:
        file.write(f'#!/bin/sh\\nexec {shlex.quote(os.path.abspath(binary))} "$@" {shlex.join(flags)}\\n')
    os.chmod(server.server_path, 0o755)
    return server
'''
TEST_IN_TREE = '''\
def test_@NAME@(tmp_path):
    """@TITLE@"""
    for file, model in MODELS.items():
        model.write(f"{tmp_path}/{file}")
    @WORDS@
    server = make_server(tmp_path, @FLAGS@)
    server.start()
    talk = Talk(server.make_url(""))
    try:
@HISTORY@
    finally:
        server.stop()
    server = make_server(tmp_path, @COLD_FLAGS@)
    server.cache_ram, server.spec_type, server.model_draft = 0, None, None
    server.start()
    cold = Talk(server.make_url(""))
    try:
        said = {number: talk.verdict(number, talk.cold(number, cold), TOLERANCE) for number in @NUMBERS@}
    finally:
        server.stop()
    assert {number: one for number, one in said.items() if "DIFFERS" in one or "HTTP 000" in one} == {}
'''
