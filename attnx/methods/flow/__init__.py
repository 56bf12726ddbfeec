"""Maximum flow through the layered graph, exactly."""
