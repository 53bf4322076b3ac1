"""Cost of recorded workloads under the rules of a server. Recordings have block ids, lengths and times, but no text.

workload_files     reads a file as a session (``recorded_session``); three formats
block_tokens       converts blocks to tokens, unscaled or scaled, and requests to steps of a scenario
simulated_servers  rule set, model with the sizes of a real model, and options, scaled like the workload
run_cell           runs the steps, counts and judges; the result is a line of numbers
cell_jobs          a job and its line, with lower bounds: with nothing kept, with unlimited memory, minimum
result_store       lines of jobs in a folder: resuming and merging
workload_jobs      jobs in processes or on other machines
"""
