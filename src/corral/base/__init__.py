"""A few small things with no domain; no module here imports another."""
