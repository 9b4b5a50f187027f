"""Models: one call at a time, its price, and which provider answers for a model id."""
