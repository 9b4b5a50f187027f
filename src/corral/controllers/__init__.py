"""What makes objects true: one file for each kind that needs it."""
