"""Agreement and faithfulness of methods over many inputs."""
