"""A small certificate authority, made with the openssl program."""
import pathlib
import subprocess

CONFIG = """
[ca]
default_ca = here
[here]
dir = {room}
database = {room}/index.txt
serial = {room}/serial
crlnumber = {room}/crlnumber
new_certs_dir = {room}
certificate = {room}/ca.pem
private_key = {room}/ca.key
default_md = sha256
default_days = 30
default_crl_days = 30
policy = any
unique_subject = no
[any]
commonName = supplied
[client]
extendedKeyUsage = clientAuth
subjectAltName = URI:coto://tenant/alice,DNS:alice.example
[server]
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1
[plain]
basicConstraints = CA:false
"""


class Authority:
    def __init__(self, room, name="test CA"):
        self.room = pathlib.Path(room)
        self.room.mkdir(exist_ok=True)
        self.ca, self.crl = self.room / "ca.pem", self.room / "crl.pem"
        (self.room / "openssl.cnf").write_text(CONFIG.format(room=self.room))
        (self.room / "index.txt").write_text("")
        (self.room / "serial").write_text("0BADCAFE\n")
        (self.room / "crlnumber").write_text("01\n")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-keyout", self.room / "ca.key", "-out", self.ca, "-subj", f"/CN={name}", "-days", "30")
        self.publish()

    def _openssl(self, *arguments):
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    def _ca(self, *arguments):
        self._openssl("ca", "-batch", "-config", self.room / "openssl.cnf", *arguments)

    def issue(self, name, kind="client", subject=None, dates=()):
        """Certificate and key: (path, path)."""
        key, request, pem = (self.room / f"{name}.{end}" for end in ("key", "csr", "pem"))
        self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-keyout", key, "-out", request, "-subj", f"/CN={subject or name}")
        self._ca("-in", request, "-out", pem, "-notext", "-extensions", kind, *dates)
        return pem, key

    def revoke(self, certificate):
        self._ca("-revoke", certificate)
        self.publish()

    def publish(self):
        self._ca("-gencrl", "-out", self.crl)
