"""Logs of real servers as people have them: pasted, wrapped, cut, of any build. Read as data, bounded, never obeyed."""
