"""What plotting programs leave comes back byte for byte, with type and hash (R1.8).

The attacks on collecting (links, devices, races, names, millions of files) are AR-01 to AR-16 of tests/escape."""
import hashlib
import json
import os
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib

import pytest

from .helpers import COTO

CODE = {
    "plot.png": ("image/png", """
import hashlib, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plot
plot.plot([1, 2, 4]); plot.title("ñ"); plot.savefig("output/plot.png")
print(hashlib.sha256(open("output/plot.png", "rb").read()).hexdigest())
"""),
    "plot.svg": ("image/svg+xml", """
import hashlib, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plot
plot.bar(["a", "b"], [1, 2]); plot.savefig("output/plot.svg")
print(hashlib.sha256(open("output/plot.svg", "rb").read()).hexdigest())
"""),
    "graph.svg": ("image/svg+xml", """
import hashlib, subprocess
svg = subprocess.run(["dot", "-Tsvg"], input=b"digraph { a -> b -> c }", capture_output=True, check=True).stdout
open("output/graph.svg", "wb").write(svg)
print(hashlib.sha256(svg).hexdigest())
"""),
    "table.csv": ("text/csv", """
import hashlib, pandas
pandas.DataFrame({"x": range(1000), "y": [n * n for n in range(1000)]}).to_csv("output/table.csv", index=False)
print(hashlib.sha256(open("output/table.csv", "rb").read()).hexdigest())
"""),
    "path.json": ("application/json", """
import hashlib, json, networkx
path = networkx.shortest_path(networkx.cycle_graph(9), 0, 4)
open("output/path.json", "w").write(json.dumps(path))
print(hashlib.sha256(open("output/path.json", "rb").read()).hexdigest())
"""),
    "bytes.bin": ("application/octet-stream", """
import hashlib
data = bytes(range(256)) * 5000 + b"\\r\\n\\x00\\xff"
open("output/bytes.bin", "wb").write(data)
print(hashlib.sha256(data).hexdigest())
"""),
}


def chunks(data):
    """Types of a PNG's chunks; their sums are checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, types = 8, []
    while at < len(data):
        size, = struct.unpack(">I", data[at:at + 4])
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
        types.append(kind)
        at += 12 + size
    return types


def is_whole(name, data):
    """What a reader of that kind of file says."""
    if name.endswith(".png"):
        types = chunks(data)
        return types[0] == b"IHDR" and types[-1] == b"IEND"
    if name.endswith(".svg"):
        return ElementTree.fromstring(data).tag == "{http://www.w3.org/2000/svg}svg"
    if name.endswith(".csv"):
        return data.splitlines()[-1] == b"999,998001" and len(data.splitlines()) == 1001
    if name.endswith(".json"):
        return json.loads(data) == [0, 1, 2, 3, 4]
    return len(data) == 256 * 5000 + 4


@pytest.mark.parametrize("name", CODE)
def test_files_come_back_byte_for_byte(tmp_path, name):
    media, code = CODE[name]
    out = tmp_path / "out"
    done = subprocess.run([COTO, "run", "--json", "--memory", "1g", "--timeout", "100s", "--artifacts", out, "--lang", "python", "-c",
                           code], capture_output=True, timeout=150, env=dict(os.environ))
    told = json.loads(done.stdout)
    assert told["verdict"] == "ok", told
    data = (out / name).read_bytes()
    inside = told["stdout"].split()[-1]
    row, = told["artifacts"]
    assert row["name"] == name and row["type"] == media and row["bytes"] == len(data), row
    assert hashlib.sha256(data).hexdigest() == inside == row["sha256"]
    assert is_whole(name, data)
    assert os.listdir(out) == [name]
