"""Views of an explanation. They read it and change nothing."""
