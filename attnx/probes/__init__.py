"""Questions put to a model about a thing that is known, answered by where it looks. `probes.pronouns`: Figure 4."""
