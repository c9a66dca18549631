"""The application: the page, and the actions of a module as JSON."""

import asyncio
import pathlib
from typing import Any

import tensorflow as tf

from tfnlp.extras import needed
from tfnlp.serving.batching import Batcher, Closed, Overloaded
from tfnlp.serving.module import ServedModule
from tfnlp.serving.requests import Refused, read_rows
from tfnlp.settings.serve import ServeSettings

PAGE = pathlib.Path(__file__).with_name("page")
# The page asks no other host for anything, and no other page may hold it in a frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_LONGEST = 300  # characters of an error of TensorFlow that are shown
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


def make_app(served: ServedModule, config: ServeSettings, batcher: Batcher) -> Any:
    """Return the FastAPI application.

    `GET /` is the page, `GET /api/module` what it shows, `POST /api/ACTION` an action.

    The names of the config's host are the only ones that requests to a loopback address may have: a
    page of another site could have its own name lead here.
    """
    fastapi = needed("fastapi", "fastapi", "serve", "`tfnlp serve`")
    from fastapi.responses import JSONResponse
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.staticfiles import StaticFiles

    # The pages of FastAPI that describe an application load scripts from other hosts.
    app = fastapi.FastAPI(title="tfnlp", docs_url=None, redoc_url=None, openapi_url=None)
    hosts = [*LOOPBACK, config.host.lower()] if config.host in LOOPBACK else ["*"]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)

    @app.exception_handler(Refused)
    async def refused(request: fastapi.Request, error: Refused) -> JSONResponse:
        return JSONResponse({"error": str(error)}, error.status)

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def nothing(request: fastapi.Request, error: Any) -> JSONResponse:
        known = ", ".join(f"POST /api/{name}" for name in served.actions)
        text = f"there is no {request.method} {request.url.path[:100]}; there are GET /, "
        return JSONResponse({"error": f"{text}GET /api/module, {known}"}, error.status_code)

    @app.middleware("http")
    async def with_headers(request: fastapi.Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers.update(_HEADERS)
        return response

    @app.get("/api/module")
    async def module() -> JSONResponse:
        limits = {
            name: getattr(config, name) for name in ("max_texts", "max_characters", "max_bytes")
        }
        return JSONResponse({**served.described(), "limits": limits})

    @app.post("/api/{name}")
    async def act(name: str, request: fastapi.Request) -> JSONResponse:
        if name not in served.actions:
            raise Refused(404, f"there is no action {name[:60]!r}; there are "
                          f"{', '.join(served.actions)}")  # fmt: skip
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            # Forms of other sites can send any other type.
            raise Refused(415, "send JSON with the header Content-Type: application/json")
        body = await _body(request, config.max_bytes)
        key, rows, count = read_rows(body, served.actions[name], config)
        return JSONResponse({"predictions": await _computed(batcher, key, rows, count)})

    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


async def _body(request: Any, most: int) -> bytes:
    """Return the body; refuse a larger one without reading all of it."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise Refused(413, f"the body has more than {most:,} bytes")
    return bytes(body)


async def _computed(batcher: Batcher, key: Any, rows: list[Any], count: int) -> list[Any]:
    """Return the results of rows, or refuse with what the module says."""
    try:
        return await asyncio.wrap_future(batcher.submit(key, rows, count))
    except (Overloaded, Closed) as error:
        raise Refused(503, str(error)) from error
    except (ValueError, TypeError, tf.errors.OpError) as error:
        text = " ".join(str(getattr(error, "message", None) or error).split())[:_LONGEST]
        raise Refused(422, f"the module does not take this: {text}") from error
    except Exception as error:
        text = " ".join(str(error).split())[:_LONGEST]
        raise Refused(500, f"{type(error).__name__}: {text}") from error
