"""What the network cases share: hosts that would answer, and programs that call them."""
import contextlib
import json
import os
import pathlib
import socket
import threading

from escape.fakenet import ADDRESSES, ADDRESSES_6
from escape.harness import escaped
from escape.lib_calls import answers, expect, reached, summary
from escape.lib_files import TRY, counted

__all__ = ["ADDRESSES", "ADDRESSES_6", "call", "fake_host", "held", "listeners", "met",
           "supported", "unsupported"]
HERE = pathlib.Path(__file__).resolve().parent
# [kind, host, port] in, word out: 'reached', 'silence' or the errno's name.
CALL = TRY + """
def call(kind, host, port):
    family = socket.AF_UNIX if kind.startswith('unix') else socket.AF_INET6 if ':' in host else socket.AF_INET
    stream = kind in ('tcp', 'unix', 'unix-seq')
    types = {'tcp': socket.SOCK_STREAM, 'unix': socket.SOCK_STREAM, 'unix-seq': socket.SOCK_SEQPACKET}
    try:
        with socket.socket(family, types.get(kind, socket.SOCK_DGRAM)) as s:
            s.settimeout(wait)
            if family != socket.AF_UNIX and not stream:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            if kind == 'unix-dgram':
                s.bind('')  # a name to answer to
            s.connect(host if family == socket.AF_UNIX else (host, port))
            if not stream:
                s.send(b'exfiltrated')
            return 'reached' if s.recv(64).startswith(b'canary') else 'silence'
    except socket.timeout:
        return 'silence'
    except OSError as reason:
        return errno.errorcode[reason.errno]
targets, wait = json.loads(sys.argv[1]), float(sys.argv[2])
print(json.dumps([call(*target) for target in targets]))
"""


def call(box, targets, wait=2, **more):
    """{'tcp 10.0.0.1 80': word} for every target (kind, host, port), called from inside."""
    words = box.inside(CALL, args=[json.dumps(targets), wait], **more)
    return {f"{kind} {host.lstrip(chr(0))} {port}": word for (kind, host, port), word in zip(targets, words)}


def held(found, log=None):
    """What the calls were answered; an escape when one arrived."""
    arrived = [name for name, word in found.items() if word == "reached"]
    arrived += log.read_text().splitlines() if log and log.exists() else []
    if arrived:
        escaped("ESCAPE", "reached: " + ", ".join(arrived[:5]))
    return counted(found.values())


def met(found, least=None):
    """The control: all of them (or so many) were reached."""
    arrived = [name for name, word in found.items() if word == "reached"]
    assert len(arrived) >= (len(found) if least is None else least), found
    return f"{len(arrived)} of {len(found)} reached"


# ---- socket(2) by family, type and protocol ----

def refusals(rows):
    return {line.split()[0]: "EAFNOSUPPORT" for line in rows}


def unsupported(box, rows):
    """What the rows were answered; an escape when one reached the kernel."""
    found = answers(box, rows)
    expect(found, refusals(rows))
    return summary(found)


def supported(box, rows, least):
    """The control: without the filter so many of them reach the kernel."""
    return reached(box, rows, refusals(rows), least=least)


@contextlib.contextmanager
def fake_host(box):
    """Runs of this box see a host whose network answers (fakenet.py); yields its log."""
    log = box.folder / "arrived"
    log.touch()
    before, user = box.prefix, [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    box.prefix = ["unshare", "--net", *user, "/usr/bin/python3", str(HERE / "fakenet.py"), str(log), "--", *before]
    try:
        yield log
    finally:
        box.prefix = before


# ---- listeners of this process, on the host as it is ----

def answer_one(server, kind):
    try:
        if kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            while True:
                connection, _ = server.accept()
                connection.sendall(b"canary")
                connection.close()
        while True:
            data, sender = server.recvfrom(4096)
            if not data:
                break
            server.sendto(b"canary", sender)
    except OSError:
        pass  # closed: the end


@contextlib.contextmanager
def listeners(*wanted):
    """Sockets of the host that answer "canary"; (family, type, address) each. Yields them bound."""
    servers, threads = [], []
    try:
        for family, kind, address in wanted:
            server = socket.socket(family, kind)
            servers.append(server)
            server.bind(address)
            if kind != socket.SOCK_DGRAM:
                server.listen(64)
            threads.append(threading.Thread(target=answer_one, args=(server, kind), daemon=True))
            threads[-1].start()
        yield servers
    finally:
        for server in servers:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()
        for thread in threads:
            thread.join(5)
