"""`attnx demo`: a page on this machine to try it on. `asked` reads a question, `app` lays out what is seen."""
