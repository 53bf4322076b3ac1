"""Request bodies that a client sent: where consecutive prompts differ, why, and the scenario made of them."""
