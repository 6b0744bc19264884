"""Server-sent events as a client reads them, and connections that speak byte by byte."""
import base64
import contextlib
import json

from .helpers import PATIENCE


def parse(text):
    """[(event, data), ...]; data is JSON in all of ours."""
    found = []
    for block in text.split("\n\n")[:-1]:
        if block == ":":  # a comment
            continue
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        assert set(fields) == {"event", "data"}, block
        found.append((fields["event"], json.loads(fields["data"])))
    return found


def output(events, which="stdout"):
    """The bytes of all its events."""
    return b"".join(base64.b64decode(data["data_base64"]) if "data_base64" in data else data["data"].encode()
                    for event, data in events if event == which)


class Stream:
    """with Stream(service, path, code=...) as it: for event, data in it: ..."""

    def __init__(self, service, path="/api/v1/run", token=None, **body):
        self.connection = service.connect(tcp=bool(token))
        fields = {"Accept": "text/event-stream", **({"Authorization": f"Bearer {token}"} if token else {})}
        self.connection.request("POST", path, json.dumps(body), fields)
        self.reply = self.connection.getresponse()
        self.events = self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def __iter__(self):
        """One reader, however often it is asked for: what came in one piece is not lost between two loops."""
        return self.events

    def read(self):
        rest = b""
        while piece := self.reply.read1(65536):
            *whole, rest = (rest + piece).split(b"\n\n")
            for block in whole:
                yield parse(block.decode() + "\n\n")[0]


@contextlib.contextmanager
def raw(service):
    connection = service.connect(tcp=True)
    connection.connect()
    connection.sock.settimeout(PATIENCE)
    try:
        yield connection.sock
    finally:
        connection.close()


