"""A valid scenario file, in which tests spoil a single place at a time."""

GOOD = """\
id = "good"
title = "a good one"
source = ["cachesim"]
why = "to be spoilt"
engine = "llama_cpp"
model = "GGGA"
profiles = ["llama_cpp@b10587"]
[server]
parallel = 2
[words]
S = 40
A = 60
r = 4
[[request]]
prompt = "S.|A"
answer = "r"
why = "first"
[[request]]
prompt = "S.A[:5].r[1:3]"
n_predict = 3
cache_prompt = false
id_slot = 1
[expect."llama_cpp@b10587"]
cache_n = [0, { either = [0, 40] }]
broken = [1]
checkpoints = [[], [40, 44]]
why = "freedom"
"""
