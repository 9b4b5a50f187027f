"""Corral: a self-hosted platform for fleets of AI agents that people can trust."""

__version__ = "0.1.0"
