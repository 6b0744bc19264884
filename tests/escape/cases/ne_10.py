"""NE-10: use an allow-list to get further than it says: literals, ports, rebinding, redirects.

There is no allow-list: a policy that asks for one is refused before anything runs, from
flags, files and the environment alike, and what runs without one reaches no address at
all (NE-04, NE-05). So this is no wall that held, and is counted as not offered.
"""
from escape.harness import NotOffered
from escape.lib_files import refusal, room
from escape.lib_net import call, fake_host, held, met

TITLE = "allow-list: destinations"
TRIED = ("an allow-list by flag, variable and policy file; then each destination it would "
         "forbid, on a host where they answer")
WALLS = ["net_namespace"]
ASKED = [["--network", "allow-list"], ["--network-allow", "example.org:443"],
         ["--network", "allow-list", "--network-allow", "169.254.169.254:80"],
         ["--network", "allow-list", "--network-allow", "10.0.0.1:*"]]
TARGETS = [("tcp", "93.184.215.14", 443), ("tcp", "93.184.215.14", 80), ("tcp", "10.0.0.1", 443),
           ("tcp", "169.254.169.254", 80), ("tcp", "::ffff:10.0.0.1", 80), ("tcp", "0.0.0.0", 80)]


def attack(box):
    for flags in ASKED:
        refusal(box.sh("echo ran", flags=flags, may_refuse=True), 65, 69)
    refusal(box.sh("echo ran", env={"COTO_NETWORK": "allow-list"}, may_refuse=True), 65, 69)
    with room() as here:
        (here / "policy.yaml").write_text("network: allow-list\nnetwork-allow: [\"example.org:443\"]\n")
        refusal(box.sh("echo ran", flags=["--policy", here / "policy.yaml"], may_refuse=True), 65, 69)
    with fake_host(box) as log:
        return NotOffered(f"{len(ASKED) + 2} ways to ask for an allow-list; without one: " + held(call(box, TARGETS), log))


def control(box):
    with fake_host(box):
        return met(call(box, TARGETS, without=["net_namespace", "landlock"]))
