"""KV events that a server published, read from a file: blocks that requests missed, and when and why they left.

    command -> message_reader -> block_history -> prompt_blocks -> events_report
"""
