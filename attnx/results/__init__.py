"""What attnx returns: data, frozen, saved and loaded. No views, no model."""
