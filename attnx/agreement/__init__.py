"""How far two lists of scores agree on what matters, and how sure a mean of such numbers is."""
