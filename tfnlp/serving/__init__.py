"""A playground for exported modules: a page and the same as JSON over HTTP.

`module.py` loads a module and finds out what it can do, the actions of `action.py`, `texts.py` and
`vectors.py`; `batching.py` runs requests together, `app.py` is the application, which checks them,
and `server.py` the process around it.
"""
