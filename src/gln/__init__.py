"""gln: predict the graph over a set of nodes from the nodes themselves."""
