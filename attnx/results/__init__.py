"""Results as data: fields, files, statistics."""
