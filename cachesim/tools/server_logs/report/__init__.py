"""Reports on a log: the first lines, statements, causes, contents and the simulation, from data alone."""
