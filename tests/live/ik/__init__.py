"""A real server of ik_llama.cpp: process, client, recorder, and comparison with the simulator."""
