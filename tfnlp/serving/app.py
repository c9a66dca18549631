"""The application: the page, and the actions of a module as JSON; what requests may ask for."""

import asyncio
import contextlib
import json
import pathlib
import re
import sys
from collections.abc import AsyncIterator, Hashable, Iterator
from typing import Any

import tensorflow as tf

from tfnlp.extras import needed
from tfnlp.serving.action import Action, Row
from tfnlp.serving.batching import Batcher, Closed, Overloaded
from tfnlp.serving.module import CLOSE, STREAM, ServedModule
from tfnlp.settings.serve import ServeSettings
from tfnlp.tasks.playground import Field

PAGE = pathlib.Path(__file__).with_name("page")
# The page asks no other host for anything, and no other page may hold it in a frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_LONGEST = 300  # characters of an error of a module that are shown
_PATH = re.compile(r"(?<!\w)(?:\w[\w+.-]*:)?~?[/\\][^\s'\"`,;:)\]}]+")
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
_BODY = 15  # seconds that a client may take for a body
_BODIES = 16  # full bodies that are held while they are read


def make_app(served: ServedModule, config: ServeSettings, batcher: Batcher, local: bool) -> Any:
    """Return the FastAPI application.

    `GET /` is the page, `GET /api/module` what it shows, `POST /api/ACTION` an action, `POST
    /api/ACTION/stream` one whose result comes piece by piece.

    If the bound address is `local`, one of the loopback, requests may have no name but its own and
    the config's host: a page of another site could have its own name lead here.
    """
    fastapi = needed("fastapi", "fastapi", "serve", "`tfnlp serve`")
    from fastapi.responses import JSONResponse, StreamingResponse
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.staticfiles import StaticFiles

    # The pages of FastAPI that describe an application load scripts from other hosts.
    app = fastapi.FastAPI(title="tfnlp", docs_url=None, redoc_url=None, openapi_url=None)
    hosts = [*_LOOPBACK, config.host, f"[{config.host}]"] if local else ["*"]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)

    @app.exception_handler(Refused)
    async def refused(request: fastapi.Request, error: Refused) -> JSONResponse:
        # What is left of a body is not waited for.
        headers = {"Connection": "close"} if error.status in (400, 408, 413, 503) else {}
        return JSONResponse({"error": str(error)}, error.status, headers)

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

    bodies = _Bodies(config.max_bytes)

    @app.get("/api/module")
    async def module() -> JSONResponse:
        limits = {
            name: getattr(config, name) for name in ("max_texts", "max_characters", "max_bytes")
        }
        return JSONResponse({**served.described(), "limits": limits})

    async def asked(name: str, request: fastapi.Request) -> tuple[Any, list[Row], int]:
        """Return what a request asks, see `read_rows`."""
        if name not in served.actions:
            listed = ", ".join(served.actions)
            raise Refused(f"there is no action {name[:60]!r}; there are {listed}", 404)
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            # Forms of other sites can send any other type.
            raise Refused("send JSON with the header Content-Type: application/json", 415)
        return read_rows(await bodies.read(request), served.actions[name], config)

    @app.post("/api/{name}")
    async def act(name: str, request: fastapi.Request) -> JSONResponse:
        key, rows, count = await asked(name, request)
        return JSONResponse({"predictions": await _computed(batcher, key, rows, count)})

    class Lines(StreamingResponse):
        """A stream that ends with its client: what is left of it is not kept until it is found."""

        async def __call__(self, *arguments: Any) -> None:
            try:
                await super().__call__(*arguments)
            finally:
                await self.body_iterator.aclose()

    @app.post("/api/{name}/stream")
    async def stream(name: str, request: fastapi.Request) -> Lines:
        _, rows, _ = await asked(name, request)
        if served.actions[name].stream is None or len(rows) != 1:
            raise Refused("a stream is of one instance, of an action whose `stream` is true")
        found = _streamed(batcher, served.actions[name].stream(rows[0]))
        first = await anext(found)  # raises what is refused
        return Lines(_lines(first, found), media_type="application/x-ndjson")

    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


class _Bodies:
    """Bodies of requests, of limited size each and together, that come in a limited time."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0

    async def read(self, request: Any) -> bytes:
        """Return a body; refuse a larger one without reading it."""
        from starlette.requests import ClientDisconnect

        declared = request.headers.get("content-length", "")
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY):
                if declared.isdecimal() and int(declared) > self._most:
                    raise self._too_large()
                async for part in request.stream():
                    body += part
                    self._held += len(part)
                    if len(body) > self._most:
                        raise self._too_large()
                    if self._held > _BODIES * self._most:
                        raise Refused("too many requests are being sent; try again later", 503)
        except TimeoutError as error:
            raise Refused(f"the body took more than {_BODY} seconds", 408) from error
        except ClientDisconnect as error:
            raise Refused("the client hung up", 400) from error  # nobody reads it
        finally:
            self._held -= len(body)
        return bytes(body)

    def _too_large(self) -> "Refused":
        return Refused(f"the body has more than {self._most:,} bytes", 413)


async def _computed(batcher: Batcher, key: Any, rows: list[Any], count: int) -> list[Any]:
    """Return the results of rows, or refuse; what the module says of its rows is no secret."""
    try:
        return await asyncio.wrap_future(batcher.submit(key, rows, count))
    except (Overloaded, Closed) as error:
        raise Refused(str(error), 503) from error
    except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
        text = str(getattr(error, "message", None) or error)
        text = " ".join(_PATH.sub("...", text).split())[:_LONGEST]
        raise Refused(f"the module does not take this: {text}", 422) from error
    except Exception as error:
        print(f"tfnlp: warning: {key[0]}: {type(error).__name__}: {error}", file=sys.stderr)
        raise Refused(f"the module failed: {type(error).__name__}", 500) from error


async def _streamed(batcher: Batcher, found: Iterator[Row]) -> AsyncIterator[Row]:
    """Yield what an iterator gives; each part waits in the queue for its turn.

    Nothing is computed for a client that has hung up: then this is cancelled. The iterator is
    closed in the thread that may be computing its next part.
    """
    try:
        while True:
            (row,) = await _computed(batcher, (STREAM, id(found)), [found], 1)
            if row is None:
                return
            yield row
    finally:
        with contextlib.suppress(Closed):
            batcher.submit((CLOSE,), [found], 0)


async def _lines(first: Row, found: AsyncIterator[Row]) -> AsyncIterator[str]:
    """Yield lines of JSON: what is new of `text`, then the whole prediction, or an error."""
    shown, row = "", first
    try:
        async with contextlib.aclosing(found):
            while row is not None:
                last = row
                yield json.dumps({"text": last["text"][len(shown) :]}) + "\n"
                shown = last["text"]
                row = await anext(found, None)
        yield json.dumps({"predictions": [last]}) + "\n"
    except Refused as error:
        yield json.dumps({"error": str(error)}) + "\n"


class Refused(Exception):
    """A request that is not computed, with a status of HTTP."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


def read_rows(
    body: bytes, action: Action, limits: ServeSettings
) -> tuple[tuple[Hashable, ...], list[Row], int]:
    """Return what a request asks of an action.

    The body is JSON, `{"instances": [...], "options": {...}}`. An instance is a dict of the fields;
    of an action with one field also a string.

    Returns:
        the key of rows that may be computed together; the rows, options among their keys; and the
        number of texts in them.

    Raises:
        Refused: 422 for what the action does not take, 413 for too much of it.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is not JSON ({type(error).__name__})") from error
    if not isinstance(asked, dict) or not {"instances"} <= set(asked) <= {"instances", "options"}:
        raise Refused('the body must be an object: {"instances": [...], "options": {...}}')
    instances = asked["instances"]
    if not isinstance(instances, list) or not instances:
        raise Refused("instances must be a list of one item or more")
    _check_count(len(instances), limits)  # before each is checked
    options = _options(asked.get("options", {}), action)
    up = {option.name for option in action.options if option.counts_up}
    rows, count = [], 0
    for number, instance in enumerate(instances):
        row = _row(instance, number, action, limits)
        count += sum(len(x) if isinstance(x, list) else isinstance(x, str) for x in row.values())
        _check_count(count, limits)
        rows.append({**row, **{n: x + number if n in up else x for n, x in options.items()}})
    key = (action.name, *(x for name, x in sorted(options.items()) if name not in up))
    return key, rows, count


def _check_count(count: int, limits: ServeSettings) -> None:
    if count > limits.max_texts:
        most = f"at most {limits.max_texts:,} are allowed"
        raise Refused(f"the request has {count:,} texts; {most}", 413)


def _row(instance: Any, number: int, action: Action, limits: ServeSettings) -> Row:
    names = [field.name for field in action.fields]
    if isinstance(instance, str) and len(names) == 1:
        instance = {names[0]: instance}
    where = f"instance {number}"
    if not isinstance(instance, dict) or set(instance) != set(names):
        raise Refused(f"{where} must be an object with {', '.join(names)} and nothing else")
    for field in action.fields:
        value, place = instance[field.name], f"{where}: {field.name}"
        if field.kind == "number":
            if type(value) is not int or not 0 <= value < 2**31:
                raise Refused(f"{place} must be a whole number from 0")
        elif field.kind != "list":
            _check_text(value, field, place, limits)
        elif isinstance(value, list) and value:
            for n, text in enumerate(value):
                _check_text(text, field, f"{place}[{n}]", limits)
        else:
            raise Refused(f"{place} must be a list of one string or more")
    if action.check is not None:
        try:
            action.check(instance)
        except ValueError as error:
            raise Refused(f"{where}: {error}") from error
    return dict(instance)


def _check_text(text: Any, field: Field, where: str, limits: ServeSettings) -> None:
    if not isinstance(text, str):
        raise Refused(f"{where} must be a string")
    if not field.may_be_empty and not text.strip():
        raise Refused(f"{where} is empty")
    if len(text) > limits.max_characters:
        most = f"at most {limits.max_characters:,} are allowed"
        raise Refused(f"{where} has {len(text):,} characters; {most}", 413)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(f"{where} holds half of a surrogate pair, which is no text") from error


def _options(given: Any, action: Action) -> Row:
    """Return the values of all options, in the types of their defaults."""
    known = {option.name: option for option in action.options}
    if not isinstance(given, dict):
        raise Refused("options must be an object")
    for name in given:
        if name not in known:
            listed = f"known are {', '.join(known)}" if known else f"{action.name} has none"
            raise Refused(f"option {name[:60]!r} is unknown; {listed}")
    found = {}
    for name, option in known.items():
        kind, value = type(option.default), given.get(name, option.default)
        if type(value) is not kind and (kind, type(value)) != (float, int):
            what = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
            raise Refused(f"option {name} must be {what}")
        if not option.low <= value <= option.high:
            raise Refused(f"option {name} must be from {option.low:g} to {option.high:g}")
        found[name] = kind(value)
    return found
