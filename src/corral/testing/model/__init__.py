"""A model service that follows a script, over real sockets: Anthropic Messages and OpenAI Chat Completions.

Use `serve_model` in a test's own event loop, `model_process` where the server must outlive what is killed, or
`python -m corral.testing.model --port 0`, which prints `URL=http://127.0.0.1:PORT`. It listens on the loopback
interface unless told otherwise.
"""

from .process import model_process
from .server import ModelServer, serve_model

__all__ = ["ModelServer", "model_process", "serve_model"]
