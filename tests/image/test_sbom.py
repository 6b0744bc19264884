"""Bills of materials. The published schemas are not part of this tree: what both formats require of such a
document is spelled out here, field by field, and jsonschema judges it. Where there is npm, CycloneDX's own schema,
which its library carries, judges it too; no package of Debian or npm carries that of SPDX 2.3."""
import json
import re
import shutil
import subprocess
import tarfile
import uuid

import jsonschema
import pytest

from cli.helpers import PATH, ROOT, SOURCE, only
from .helpers import USAGE, member, ok, refused, tar

PUBLISHED = "@cyclonedx/cyclonedx-library@6.13.1"
KEPT = SOURCE / "build/test-schemas"  # survives from run to run

STATUS = b"""Package: bash
Status: install ok installed
Maintainer: Matthias Klose <doko@debian.org>
Architecture: amd64
Source: bash (5.2.15)
Version: 5.2.15-2+b2
Description: shell
 with a second line
 Version: 0 is not its version

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: libstdc++6
Status: install ok installed
Maintainer: Debian GCC Maintainers <debian-gcc@lists.debian.org>
Architecture: amd64
Version: 12.2.0-14

Package: sdk
Status: install ok installed
Maintainer: "Cloud CLI" <https://example.org/sdk/>
Architecture: amd64
Version: 1:2~3
"""
APK = b"P:musl\nV:1.2.4-r2\nA:x86_64\nL:MIT\n\nP:busybox\nV:1.36\nA:x86_64\nL:GPL-2.0-only\nm:<nobody@example.org>\n"
METADATA = b"Metadata-Version: 2.1\nName: Requests_Two\nVersion: 2.28.1\nAuthor: Kenneth Reitz\nLicense: Apache 2.0\n\nName: not this one\n"
RELEASE = b'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
TREE = tar(member("var/lib/dpkg/status", STATUS), member("lib/apk/db/installed", APK), member("etc/os-release", RELEASE),
           member("usr/lib/python3/dist-packages/requests-2.28.1.dist-info/METADATA", METADATA),
           member("usr/lib/python3/dist-packages/no.dist-info/METADATA", b"nothing\0at all"))
WANTED = {
    "pkg:deb/debian/bash@5.2.15-2%2Bb2?arch=amd64&distro=debian-12": ("bash", "5.2.15-2+b2"),
    "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64&distro=debian-12": ("libstdc++6", "12.2.0-14"),
    "pkg:deb/debian/sdk@1:2~3?arch=amd64&distro=debian-12": ("sdk", "1:2~3"),
    "pkg:apk/debian/musl@1.2.4-r2?arch=x86_64&distro=debian-12": ("musl", "1.2.4-r2"),
    "pkg:apk/debian/busybox@1.36?arch=x86_64&distro=debian-12": ("busybox", "1.36"),
    "pkg:pypi/requests-two@2.28.1": ("Requests_Two", "2.28.1"),
}
# As packages write them, and as SPDX does: Person or Organization, a name, and a mail in brackets.
SUPPLIERS = {"bash": "Person: Matthias Klose (doko@debian.org)", "sdk": "Person: Cloud CLI", "musl": "NOASSERTION",
             "libstdc++6": "Organization: Debian GCC Maintainers (debian-gcc@lists.debian.org)",
             "busybox": "Person: nobody@example.org", "Requests_Two": "NOASSERTION"}
TEXT, DATE = {"type": "string", "minLength": 1}, {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}


def strict(required, **optional):
    return {"type": "object", "required": list(required), "properties": {**required, **optional}, "additionalProperties": False}


def many(item):
    return {"type": "array", "items": item, "minItems": 1}


# SPDX 2.3, sections 6 (document), 7 (package), 11 (relationships)
SPDX_ID = {"type": "string", "pattern": r"^SPDXRef-[A-Za-z0-9.-]+$"}
PARTY = r"(Person|Organization): [^<>\s][^<>]*?( \([^\s()]+@[^\s()]+\))?"
SPDX = strict({
    "spdxVersion": {"const": "SPDX-2.3"}, "dataLicense": {"const": "CC0-1.0"}, "SPDXID": {"const": "SPDXRef-DOCUMENT"}, "name": TEXT,
    "documentNamespace": {"type": "string", "pattern": "^https?://[^#]+$"},
    "creationInfo": strict({"created": DATE, "creators": many({"type": "string", "pattern": "^(Tool|Person|Organization): ?.+-?"})}),
    "packages": many(strict(
        {"SPDXID": SPDX_ID, "name": TEXT, "downloadLocation": TEXT},
        versionInfo=TEXT, supplier={"type": "string", "pattern": f"^(NOASSERTION|{PARTY})$"},
        originator={"type": "string", "pattern": f"^(NOASSERTION|{PARTY})$"},
        filesAnalyzed={"const": False}, licenseConcluded=TEXT, licenseDeclared=TEXT, copyrightText=TEXT, licenseComments=TEXT,
        sourceInfo=TEXT, primaryPackagePurpose={"enum": ["CONTAINER"]},
        checksums=many(strict({"algorithm": {"const": "SHA256"}, "checksumValue": {"type": "string", "pattern": "^[0-9a-f]{64}$"}})),
        externalRefs=many(strict({"referenceCategory": {"const": "PACKAGE-MANAGER"}, "referenceType": {"const": "purl"},
                                  "referenceLocator": {"type": "string", "pattern": "^pkg:"}})))),
    "relationships": many(strict({"spdxElementId": SPDX_ID, "relatedSpdxElement": SPDX_ID,
                                  "relationshipType": {"enum": ["DESCRIBES", "CONTAINS"]}})),
})
# CycloneDX 1.5
COMPONENT = strict({"type": {"enum": ["library", "container", "application"]}, "name": TEXT},
                   **{"bom-ref": TEXT, "version": TEXT, "purl": {"type": "string", "pattern": "^pkg:"},
                      "author": TEXT, "supplier": strict({"name": TEXT}, contact=many(strict({"email": {"type": "string", "pattern": r"^\S+@\S+$"}}))),
                      "licenses": many(strict({"license": strict({"name": TEXT})})),
                      "hashes": many(strict({"alg": {"const": "SHA-256"}, "content": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}))})
CYCLONEDX = strict({
    "bomFormat": {"const": "CycloneDX"}, "specVersion": {"const": "1.5"}, "version": {"const": 1},
    "serialNumber": {"type": "string", "pattern": "^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    "metadata": strict({"timestamp": DATE, "tools": strict({"components": many(COMPONENT)}), "component": COMPONENT}),
    "components": {"type": "array", "items": COMPONENT},
})


@pytest.fixture
def digest(store):
    return store.take("-", "bill", stdin=TREE)


def bill(store, form):
    return json.loads(ok(store.image("sbom", "bill", "--format", form)))


def test_spdx(store, digest):
    document = bill(store, "spdx")
    jsonschema.validate(document, SPDX)
    image, packages = document["packages"][0], document["packages"][1:]
    assert image["checksums"][0]["checksumValue"] == digest and digest in document["documentNamespace"]
    assert {row["externalRefs"][0]["referenceLocator"]: (row["name"], row["versionInfo"]) for row in packages} == WANTED
    assert {row["name"]: row["supplier"] for row in packages} == SUPPLIERS
    assert {row["name"]: row["originator"] for row in packages if "originator" in row} == {"Requests_Two": "Person: Kenneth Reitz"}
    ids = [row["SPDXID"] for row in document["packages"]] + ["SPDXRef-DOCUMENT"]
    assert len(set(ids)) == len(ids)
    assert {row["relatedSpdxElement"] for row in document["relationships"]} == set(ids) - {"SPDXRef-DOCUMENT"}


def test_cyclonedx(store, digest):
    document = bill(store, "cyclonedx")
    jsonschema.validate(document, CYCLONEDX)
    assert {row["purl"]: (row["name"], row["version"]) for row in document["components"]} == WANTED
    refs = [row["bom-ref"] for row in document["components"]]
    assert len(set(refs)) == len(refs)
    assert uuid.UUID(document["serialNumber"].removeprefix("urn:uuid:")).version == 5
    licenses = {row["name"]: row["licenses"][0]["license"]["name"] for row in document["components"] if "licenses" in row}
    assert licenses == {"musl": "MIT", "busybox": "GPL-2.0-only", "Requests_Two": "Apache 2.0"}
    suppliers = {row["name"]: row["supplier"] for row in document["components"] if "supplier" in row}
    assert suppliers == {"bash": {"name": "Matthias Klose", "contact": [{"email": "doko@debian.org"}]}, "sdk": {"name": "Cloud CLI"},
                         "libstdc++6": {"name": "Debian GCC Maintainers", "contact": [{"email": "debian-gcc@lists.debian.org"}]},
                         "busybox": {"name": "nobody@example.org"}}
    assert [row.get("author") for row in document["components"] if row["name"] == "Requests_Two"] == ["Kenneth Reitz"]


def published():
    """CycloneDX's schema 1.5 and those it refers to, by the names it calls them."""
    KEPT.mkdir(parents=True, exist_ok=True)
    if not list(KEPT.glob("*.tgz")):
        subprocess.run(["npm", "pack", "--silent", PUBLISHED], cwd=KEPT, check=True, timeout=120, stdout=subprocess.DEVNULL)
    with tarfile.open(next(KEPT.glob("*.tgz"))) as package:
        found = [json.load(package.extractfile(f"package/res/schema/{name}.SNAPSHOT.schema.json"))
                 for name in ("bom-1.5", "spdx", "jsf-0.82")]
    return found[0], {schema["$id"]: schema for schema in found}


@only(ROOT and shutil.which("npm", path=PATH))
def test_cyclonedx_by_its_published_schema(store, digest):
    schema, others = published()
    judge = jsonschema.Draft7Validator(schema, resolver=jsonschema.RefResolver(schema["$id"], schema, others))
    document = bill(store, "cyclonedx")
    assert [error.message for error in judge.iter_errors(document)] == []
    document["components"][0]["type"] = "thing"
    del document["components"][1]["name"]
    assert len(list(judge.iter_errors(document))) == 2  # it can tell


def test_the_same_image_has_the_same_bill(store, digest):
    for form in ("spdx", "cyclonedx"):
        assert bill(store, form) == bill(store, form)


def test_an_image_without_packages(store, root):
    store.take(root, "bill")
    jsonschema.validate(bill(store, "spdx"), SPDX)
    assert bill(store, "cyclonedx")["components"] == []
    refused(store.image("sbom", "bill", "--format", "xml"), USAGE, "spdx")


def test_hostile_databases(store, tmp_path):
    """Links lead nowhere outside, and text that is no database breaks nothing."""
    secret = tmp_path / "status"
    secret.write_bytes(STATUS)
    evil = "../" * 20 + str(secret).lstrip("/")
    for number, members in enumerate([
            [member("var/lib/dpkg/status", kind=tarfile.SYMTYPE, link=str(secret))],
            [member("var/lib/dpkg/status", kind=tarfile.SYMTYPE, link=evil)],
            [member("var/lib/dpkg", kind=tarfile.SYMTYPE, link=str(tmp_path))],
            [member("var/lib/dpkg/status/", mode=0o755)],
            [member("var/lib/dpkg/status", b"\0\xff" * 100 + b"Package: \nVersion:\n\n\n" + b"Package: a" * 5000)],
    ]):
        store.take("-", "bill", stdin=tar(member("etc/x", str(number).encode()), *members))
        document = bill(store, "cyclonedx")
        jsonschema.validate(document, CYCLONEDX)
        assert not re.search("bash|libstdc", json.dumps(document["components"]))
