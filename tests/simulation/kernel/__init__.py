"""Every model gets the events in order, the network, small scenarios, campaigns and the search of all states."""
