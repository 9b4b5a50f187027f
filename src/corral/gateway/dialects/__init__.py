"""Wire formats of model services: how a Request is written and how a stream of events becomes a Reply."""
