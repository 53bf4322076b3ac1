"""What does a recorded workload cost under the rules of a server? Recordings hold ids of blocks, lengths and times, no
text.

read       a file becomes sessions (``session``): the forms of three tools
tokens     blocks become tokens, one to one or scaled; requests become steps of a scenario
servers    a server for them: rule set, model with the sizes of a real one, options, scaled alike
play       the steps are played, counted and judged; one line of numbers comes out (``cell``)
bounds     what the same requests cost with nothing kept, with unlimited memory, and at the very least
lines      lines of jobs in a folder: resumed, merged (``remote``: on other machines)
agreement  do scaled and unscaled say the same?
charts     pictures of many lines
"""
