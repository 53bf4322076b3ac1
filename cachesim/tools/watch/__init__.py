"""Watching a running server: a row for each request, from its log, from the traffic of its clients, or from both.

The relay copies bytes between client and server and to a second process, which reads them, compares consecutive bodies
and prints the rows. The copies wait in a bounded queue, so that nothing in the second process delays a connection.

What both processes hold together is bounded in bytes (``held_bytes``); a request without room is counted.

    command -> relay -> frames -> analysis -> exchanges -> recent_bodies -> joined_rows -> report
                                           -> log_follower -> log_rows ---^
            -> event_endpoint, event_lines -> event_watch -> event_report
"""
