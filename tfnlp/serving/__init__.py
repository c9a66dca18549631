"""A playground for exported modules: a page and the same as JSON over HTTP.

`module.py` loads a module and finds out what it can do, the actions of `tasks.py`, `texts.py` and
`vectors.py`; `batching.py` runs requests together, `requests.py` checks them, `app.py` is the
application and `server.py` the process around it.
"""
