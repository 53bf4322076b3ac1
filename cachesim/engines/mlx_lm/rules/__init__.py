"""What the server decides, one pure function for each answer. Lengths and positions are tokens."""
