"""Public test doubles: what tests of this package and of yours put in place of the services it uses."""
