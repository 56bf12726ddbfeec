"""Whether what attention shows can be trusted on this model: agreement with references, and faithfulness."""
