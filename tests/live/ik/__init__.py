"""A real server of ik_llama.cpp: started, asked, recorded, compared with ours."""
