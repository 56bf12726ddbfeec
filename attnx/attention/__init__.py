"""What was seen: attention of one input, level by level, held or computed where it is read."""
