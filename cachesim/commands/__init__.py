"""The sub-commands, one file each: ``add_arguments`` says what a command takes, ``run`` does it.

These modules import nothing heavy at their top, so that help and usage errors come at once.
"""
