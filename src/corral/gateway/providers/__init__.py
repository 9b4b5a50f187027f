"""Model providers: one file each, named as model ids begin (`anthropic/claude-sonnet-5-5`)."""
