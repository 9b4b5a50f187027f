"""Sandbox drivers: one file each, named after the driver."""
