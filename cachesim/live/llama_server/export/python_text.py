"""The texts from which tests in Python are put together; `@NAME@` is filled in."""

COMMON = '''\
GREEDY = @GREEDY@


class Talk:
    """A conversation with a server: what was sent and what came, by the number of the request."""

    def __init__(self, url, post):
        self.url, self.post, self.sent, self.came = url, post, {}, {}

    def ask(self, number, prompt, hang_up=None, **fields):
        """Send a request; ``hang_up``: disconnect after so many tokens."""
        body = self.sent[number] = {"prompt": list(prompt), **fields, **GREEDY}
        if hang_up is None:
            self.came[number] = self.post("/completion", body)
        else:
            self.came[number] = "disconnected", {"tokens": self.disconnect(body, hang_up)}

    def disconnect(self, body, tokens):
        host = self.url.partition("//")[2]
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.request("POST", "/completion", json.dumps({**body, "stream": True}),
                           {"Content-Type": "application/json"})
        seen = []
        if tokens:
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    seen += json.loads(line[6:]).get("tokens", [])
                if len(seen) >= tokens:
                    break
        else:
            time.sleep(0.05)
        connection.close()
        time.sleep(0.3)
        return seen

    def together(self, *calls):
        """Requests that are at work at the same time; each call is preceded by seconds to wait."""
        threads = []
        for delay, call in calls:
            time.sleep(delay)
            threads.append(threading.Thread(target=call))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def hear(self, number, completion, at, word, start, stop):
        """Generated tokens of a completion, from ``at`` on, become a part of a word."""
        reply = self.came[number][1]
        bodies = reply if isinstance(reply, list) else [reply or {}]
        said = (bodies[completion].get("tokens") or []) if completion < len(bodies) else []
        said = said[at:at + stop - start]
        word[start:start + len(said)] = said

    def wrong(self, number, cold_post, tolerance):
        """Where the answer to a request is not that of a cold run, in words; "" = nowhere."""
        status, warm = self.came[number]
        if status == "disconnected":
            return ""
        cold = {name: self.sent[number][name] for name in @KEPT@ if name in self.sent[number]}
        cold_status, cold_body = cold_post("/completion", {**cold, "cache_prompt": False, "id_slot": 0, **GREEDY})
        if status != cold_status or status != 200:
            same = status == cold_status != 0
            return "" if same else f"request {number}: HTTP {status or 'no answer'}, a cold run: {cold_status}"
        for body in warm if isinstance(warm, list) else [warm]:
            said = difference(body, cold_body, tolerance)
            if said:
                return f"request {number} (cache_n {body['timings']['cache_n']}): {said}"
        return ""


def places(body):
    """For every generated token the likeliest ones and their log-probabilities."""
    found = body.get("completion_probabilities") or []
    return [{one["id"]: one["logprob"] for one in place.get("top_logprobs") or []} for place in found]


def difference(warm, cold, tolerance):
    """How two answers differ, in words; "" = not more than rounding."""
    ours, theirs = warm["tokens"], cold["tokens"]
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), None)
    pairs = list(zip(places(warm), places(cold)))[: None if at is None else at + 1]
    tied = at is None or (len(pairs) > at and bool(pairs[at][0].keys() & pairs[at][1].keys()))
    gaps = [abs(a[token] - b[token]) for a, b in pairs for token in a.keys() & b.keys()]
    if gaps and max(gaps) > tolerance:
        return f"log-probabilities differ by {max(gaps):.3g} from a cold run; tokens {ours}, cold {theirs}"
    if len(ours) != len(theirs) or not tied:
        return f"tokens {ours}, a cold run: {theirs}"
    return ""
'''
ALONE = '''\
URL = os.environ.get("URL", "http://127.0.0.1:8080")
TOLERANCE = float(os.environ.get("TOLERANCE", "@TOLERANCE@"))   # of log-probabilities


def post(path, body):
    """HTTP status and decoded body; 0 and None where no answer came."""
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, None
    except (OSError, ValueError):
        return 0, None
'''
TEST_ALONE = '''\
def test_@NAME@():
    """@TITLE@"""
    urllib.request.urlopen(URL + "/health", timeout=60).close()     # is there a server?
    @WORDS@
    talk = Talk(URL, post)
@HISTORY@
    wrong = [talk.wrong(number, post, TOLERANCE) for number in @NUMBERS@]
    assert list(filter(None, wrong)) == []
'''
IN_TREE = '''\
MODEL = os.environ.get("CACHESIM_MODEL", "@FILE@")
TOLERANCE = @TOLERANCE@   # of log-probabilities


def make_server(folder, flags):
    """A server with exact arithmetic; ``flags`` are those that ServerProcess has no field for."""
    server = ServerProcess()
    server.model_hf_repo = server.model_hf_file = None
    server.model_file = MODEL
    server.n_threads, server.fa, server.ctk, server.ctv = 1, "off", "f32", "f32"
    server.slot_save_path = f"{folder}/"
    @FIELDS@
    binary = os.environ.get("LLAMA_SERVER_BIN_PATH", "../../../build/bin/llama-server")
    server.server_path = f"{folder}/llama-server"
    with open(server.server_path, "w") as file:
        file.write(f'#!/bin/sh\\nexec {shlex.quote(os.path.abspath(binary))} "$@" {shlex.join(flags)}\\n')
    os.chmod(server.server_path, 0o755)
    return server


def post_to(server):
    """A function that asks this server: HTTP status and body; 0 and None where no answer came."""
    def post(path, body):
        try:
            response = server.make_request("POST", path, data=body)
        except requests.exceptions.RequestException:
            return 0, None
        return response.status_code, response.body
    return post
'''
TEST_IN_TREE = '''\
@pytest.mark.skipif(not os.path.exists(MODEL), reason="no @FILE@ (see above)")
def test_@NAME@(tmp_path):
    """@TITLE@"""
    @WORDS@
    server = make_server(tmp_path, @FLAGS@)
    server.start()
    talk = Talk(server.make_url(""), post_to(server))
    try:
@HISTORY@
    finally:
        server.stop()
    cold = make_server(tmp_path, @COLD_FLAGS@)
    cold.cache_ram, cold.spec_type, cold.model_draft = 0, None, None
    cold.start()
    try:
        wrong = [talk.wrong(number, post_to(cold), TOLERANCE) for number in @NUMBERS@]
    finally:
        cold.stop()
    assert list(filter(None, wrong)) == []
'''
