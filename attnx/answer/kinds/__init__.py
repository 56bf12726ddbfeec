"""The kinds of heads, a file each."""
