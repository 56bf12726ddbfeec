"""Views of results. They read them and change nothing."""
