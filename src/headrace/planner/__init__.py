"""Nodes, shapes, statistics, cost, the search for a tree, routes and explain."""
