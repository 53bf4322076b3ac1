"""Several servers of one kind behind a front end that sends each request to one of them.

routes        policies of the front end
prefix_tree   prompts that were sent to each replica, as the policy `prefix` records them
fleet         the front end and its replicas: what each of them evaluates
fleet_report  data and text
"""
