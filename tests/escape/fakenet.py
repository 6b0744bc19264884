"""fakenet.py LOG -- PROGRAM [ARG...]: runs a program on a host whose network answers.

Started in a network namespace of its own with the right to configure it. Metadata
services, resolvers and private ranges are addresses of its loopback; everything that is
sent there is answered with "canary" and written to LOG. So a connection that a wall
should have stopped is seen to arrive, and nothing leaves this machine.
"""
import socket
import subprocess
import sys
import threading

ADDRESSES = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "10.0.0.1", "172.17.0.1",
             "192.168.1.1", "100.64.0.1", "198.18.0.1", "8.8.8.8", "93.184.215.14"]
ADDRESSES_6 = ["fd00:ec2::254", "fd20:ce::254", "2001:db8::1", "64:ff9b::a9fe:a9fe"]
PORTS = [53, 80, 443, 5353, 5355, 4680]
ANSWER = b"canary"


def configure():
    lines = ["link set lo up", *(f"addr add {one}/32 dev lo" for one in ADDRESSES),
             *(f"addr add {one}/128 dev lo nodad" for one in ADDRESSES_6),
             "route add 224.0.0.0/4 dev lo", "route add 255.255.255.255/32 dev lo",
             "route add local ff00::/8 dev lo table local"]
    subprocess.run(["ip", "-force", "-batch", "-"], input="\n".join(lines), text=True, timeout=20,
                   stderr=subprocess.DEVNULL)


def note(log, *words):
    with open(log, "a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def serve_tcp(server, log):
    while True:
        connection, _ = server.accept()
        note(log, "tcp", connection.getsockname()[0])
        connection.sendall(ANSWER)
        connection.close()


def serve_udp(server, log):
    while True:
        data, sender = server.recvfrom(4096)
        note(log, "udp", data)
        server.sendto(ANSWER, sender)


def serve(log):
    for port in PORTS:
        for kind, work in ((socket.SOCK_STREAM, serve_tcp), (socket.SOCK_DGRAM, serve_udp)):
            server = socket.socket(socket.AF_INET6, kind)  # both versions
            server.bind(("::", port))
            if kind == socket.SOCK_STREAM:
                server.listen(64)
            elif port in (5353, 5355):
                group = "224.0.0.251" if port == 5353 else "224.0.0.252"
                member = socket.inet_aton(group) + socket.inet_aton("127.0.0.1")
                server.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            threading.Thread(target=work, args=(server, log), daemon=True).start()


def main():
    log, program = sys.argv[1], sys.argv[3:]
    configure()
    serve(log)
    # What may configure a network is not what coto runs with; and it does not outlive us.
    drop = ["setpriv", "--pdeathsig=KILL", "--ambient-caps=-all", "--inh-caps=-all"]
    sys.exit(subprocess.run(drop + program).returncode)


if __name__ == "__main__":
    main()
