"""A broker's clients and the rules of consuming. Pure; the shell does all IO.

`registry` has the registered clients, `subscriptions` their filters, and `locks` the owners of queues that are consumed
in order. `offsets` has the progress of groups, and `waiting` the pulls that are held. `retry` handles messages that are
sent back, and `delays` messages that wait for their time. `topics` and `groups` have the configured ones. Each is a
class or a few functions that take the time and return orders.
"""
