"""FS-01: read password files, keys and credentials of the host and of the person who runs coto."""
import json

from escape.harness import escaped
from escape.lib_files import SECRET, TRY, all_refused, attempts, room, secret

TITLE = "password files, keys, cloud and cluster credentials"
TRIED = "open of 37 well-known places, under the caller's home and /proc/N/root too"
WALLS = ["mount_namespace", "uid", "landlock"]

PLACES = """
/etc/shadow /etc/gshadow /etc/shadow- /etc/sudoers /etc/ssh/ssh_host_rsa_key /etc/ssh/ssh_host_ed25519_key
/etc/ssl/private /etc/machine-id /etc/kubernetes/admin.conf /etc/krb5.keytab /etc/subuid /etc/crontab /etc/fstab
/root/.ssh/id_rsa /root/.aws/credentials /root/.kube/config /root/.docker/config.json /root/.bash_history
/root/.config/gcloud/credentials.db /root/.netrc /root /home /srv /opt /mnt /media /boot
/run/secrets /var/run/secrets/kubernetes.io/serviceaccount/token /run/docker.sock /var/run/docker.sock
/run/containerd/containerd.sock /run/systemd /var/lib /var/log /var/spool /var/backups
""".split()
HOME = [".ssh/id_ed25519", ".aws/credentials", ".kube/config", ".config/gcloud/credentials.db", ".netrc"]
READ = TRY + """
found = []
for name in json.loads(sys.argv[1]):
    for path in (name, "/proc/1/root" + name, "/proc/self/root" + name):
        try: found.append(open(path).read())
        except OSError: pass
print(json.dumps(found))
"""


def plant(home):
    """Credentials that only the walls keep from being read: everybody may."""
    for name in HOME:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        secret(home / name)
    return [str(home / name) for name in HOME]


def listing(place):
    return f"attempt(os.listdir if os.path.isdir({place!r}) else open, {place!r})"


def attack(box):
    found = attempts(box, {place: listing(place) for place in PLACES})
    text = all_refused(found, "READ")
    with room() as home:
        names = plant(home)
        if box.inside(READ, args=[json.dumps(names)]):
            escaped("READ", "a credential planted on the host")
    return text


def control(box):
    """Without a file system of its own the planted credentials are read."""
    with room() as home:
        names = plant(home)
        read = box.inside(READ, args=[json.dumps(names)], without=["mount_namespace", "landlock"])
        assert read.count(SECRET) >= len(HOME), read
    return f"{len(HOME)} planted credentials read"
