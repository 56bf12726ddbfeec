"""Small models that ship with attnx, and generators of their inputs."""
