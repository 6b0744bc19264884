"""NE-11: lie to an allow-list about the name: SNI, Host, CONNECT, trailing dot, IDN, '@' in a URL.

There is no allow-list, and so no proxy to lie to (no variable names one, nothing listens
in the sandbox); a name that is hard to judge is refused with the rest. Not offered.
"""
from escape.harness import NotOffered, escaped
from escape.lib_files import TRY, refusal
from escape.lib_net import call, fake_host, held, met

TITLE = "allow-list: names"
TRIED = ("names that are hard to judge in --network-allow; proxy variables; every socket that "
         "listens inside")
WALLS = ["net_namespace"]
NAMES = ["example.org.:443", "*.example.org:443", "*:443", "example.org@evil.example:443", "xn--e1afmkfd.example:443",
         "EXAMPLE.org:443", "example.org:443#x", "http://example.org/:443", "[::ffff:a9fe:a9fe]:80", "0x0a000001:80"]
PROXIES = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "no_proxy"]
SCAN = TRY + """
rows = [line.split() for name in ('tcp', 'tcp6', 'udp', 'udp6') for line in open('/proc/net/' + name)]
heard = [int(row[1].rsplit(':', 1)[1], 16) for row in rows if row[3] in ('0A', '07')]
print(json.dumps([heard, [k for k in os.environ if k.lower().endswith('_proxy')]]))
"""
TARGETS = [("tcp", "93.184.215.14", 443), ("tcp", "127.0.0.1", 443), ("tcp", "127.0.0.1", 4680)]


def attack(box):
    for name in NAMES:
        refusal(box.sh("echo ran", flags=["--network", "allow-list", "--network-allow", name], may_refuse=True), 65, 69)
    with fake_host(box) as log:
        ports, variables = box.inside(SCAN, env={name: "http://127.0.0.1:80" for name in PROXIES})
        if ports or variables:
            escaped("ESCAPE", f"something answers inside: {ports} {variables}")
        return NotOffered(f"{len(NAMES)} names, no proxy; " + held(call(box, TARGETS), log))


def control(box):
    with fake_host(box):
        text = met(call(box, TARGETS, without=["net_namespace", "landlock"]))
        ports, _ = box.inside(SCAN, without=["net_namespace", "landlock"])
    assert 4680 in ports, ports
    return f"{text}, {len(ports)} listeners found"
