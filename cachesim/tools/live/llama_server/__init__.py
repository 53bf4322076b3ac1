"""A real llama-server: started, asked, heard, recorded; and tiny models for it to load."""
