"""Which inputs run together, and how."""
