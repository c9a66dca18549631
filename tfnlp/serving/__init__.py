"""A playground for exported modules: a page and the same as JSON over HTTP.

`module.py` loads a module, `actions/` says what it can do, `batching.py` runs requests together,
`requests.py` checks them, `app.py` is the application and `server.py` the process around it.
"""
