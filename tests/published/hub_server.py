"""A server on this machine that answers as the Hugging Face Hub does, with repositories of a test.

It answers what huggingface_hub asks for: what a revision is, the tree of a commit, and the files,
with the headers that its cache is made of. Large files are redirected to another host name, as the
Hub's are.
"""

import contextlib
import hashlib
import http.server
import json
import pathlib
import re
import threading
import urllib.parse
from collections.abc import Iterator

_LARGE = (".safetensors", ".bin", ".pb", ".h5", ".gguf")
_ASKED = re.compile(r"/(?P<repo>[\w.\-]+(/[\w.\-]+)?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_API = re.compile(
    r"/api/models/(?P<repo>[\w.\-]+(/[\w.\-]+)?)(/(?P<what>revision|tree)/(?P<revision>[^/]+))?"
)


class Hub:
    """The repositories, and what has been asked for.

    Attributes:
        url: Its address, for `HF_ENDPOINT`.
        commits: Dict of repository to a dict of commit to a dict of path to bytes.
        refs: Dict of (repository, branch or tag) to the commit.
        token: What may be asked only with this token is everything, if it is not None.
        asked: The method and path of each request for a file's bytes.
    """

    def __init__(self) -> None:
        self.url, self.cdn = "", ""
        self.commits, self.refs, self.token = {}, {}, None
        self.asked = []

    def put(self, repository: str, files: dict[str, bytes], tag: str = "main") -> str:
        """Add a commit of these files to a repository; return it."""
        content = json.dumps({name: hashlib.sha1(data).hexdigest() for name, data in files.items()})
        commit = hashlib.sha1(content.encode()).hexdigest()
        self.commits.setdefault(repository, {})[commit] = dict(files)
        self.refs[repository, tag] = commit
        return commit

    def downloads(self) -> list[str]:
        """Return the names of the files whose bytes were asked for."""
        return [path for method, path in self.asked if method == "GET"]


def files_in(folder: pathlib.Path) -> dict[str, bytes]:
    """Return the files of a folder, by their paths in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@contextlib.contextmanager
def serving() -> Iterator[Hub]:
    """Serve an empty `Hub` on a free port of this machine."""
    hub = Hub()

    handler = type("Handler", (_Handler,), {"hub": hub})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    hub.cdn = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urllib.parse.urlsplit(self.path).path
        if path.startswith("/cdn/"):
            assert "Authorization" not in self.headers  # a token is for the Hub alone
            name, digest = urllib.parse.unquote(path.removeprefix("/cdn/")).split("?")[0].split("|")
            self._bytes(name, self._blob(digest), {"ETag": f'"{digest}"'})
            return
        asked = _API.fullmatch(path) or _ASKED.fullmatch(path)
        if asked is None and path.startswith("/api/models/"):
            return self._refuse(404, "RepoNotFound")
        if asked is None:
            return self._refuse(404, "EntryNotFound")
        repo, revision = asked["repo"], urllib.parse.unquote(asked["revision"] or "main")
        wanted = self.hub.token
        if wanted is not None and self.headers.get("Authorization") != f"Bearer {wanted}":
            return self._refuse(401, "GatedRepo")
        if repo not in self.hub.commits:
            return self._refuse(401, "RepoNotFound")
        commit = self.hub.refs.get((repo, revision), revision)
        if commit not in self.hub.commits[repo]:
            return self._refuse(404, "RevisionNotFound")
        files = self.hub.commits[repo][commit]
        if "file" in asked.groupdict():
            return self._file(urllib.parse.unquote(asked["file"]), files, commit)
        if asked["what"] == "tree":
            return self._json([self._entry(name, data) for name, data in files.items()])
        siblings = [{"rfilename": name} for name in files]
        self._json({"id": repo, "modelId": repo, "sha": commit, "siblings": siblings, "tags": []})

    def _entry(self, name: str, data: bytes) -> dict:
        entry = {"type": "file", "path": name, "size": len(data), "oid": _git_sha1(data)}
        if name.endswith(_LARGE):
            large = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            entry["lfs"] = large
        return entry

    def _file(self, name: str, files: dict[str, bytes], commit: str) -> None:
        if name not in files:
            return self._refuse(404, "EntryNotFound", {"X-Repo-Commit": commit})
        data = files[name]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{_git_sha1(data)}"'}
        if not name.endswith(_LARGE):
            return self._bytes(name, data, headers)
        digest = hashlib.sha256(data).hexdigest()
        self.send_response(302)
        self.send_header("Location", f"{self.hub.cdn}/cdn/{urllib.parse.quote(name)}%7C{digest}")
        headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": len(data)}
        self._headers({**headers, "Content-Length": 0})

    def _blob(self, digest: str) -> bytes:
        for commits in self.hub.commits.values():
            for files in commits.values():
                for data in files.values():
                    if hashlib.sha256(data).hexdigest() == digest:
                        return data
        raise KeyError(digest)

    def _bytes(self, name: str, data: bytes, headers: dict) -> None:
        self.hub.asked.append((self.command, name))
        self.send_response(200)
        self._headers({**headers, "Content-Length": len(data)})
        if self.command == "GET":
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(data)

    def _json(self, content: object) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self._headers({"Content-Type": "application/json", "Content-Length": len(data)})
        if self.command == "GET":
            self.wfile.write(data)

    def _refuse(self, status: int, code: str, headers: dict | None = None) -> None:
        self.send_response(status)
        self._headers({**(headers or {}), "X-Error-Code": code, "Content-Length": 0})

    def _headers(self, headers: dict) -> None:
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()


def _git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
