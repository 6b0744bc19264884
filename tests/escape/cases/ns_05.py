"""NS-05: a caller's odd spelling of a user becomes root (CVE-2026-30892)."""
import ctypes

from escape.harness import escaped
from escape.lib_files import refusal

TITLE = 'user names and numbers'
TRIED = '--user with 0, hexadecimal, signs, spaces, overflow, names, empty parts, exponents, control bytes'
WALLS = ['uid']
ODD = ['0', '00', '0:0', '0x0', '+0', '-0', '-1', '4294967295', '4294967296', '18446744073709551616', 'root', ' 5',
       '5 ', '\t5', '1000:0', '1000:', ':5', ':', '', '1e3', '1:2:3', '1\n', '1\n0', '1_0', '٣', '0b1', '1,2', '1;0',
       '65534:4294967296']
WHO = 'import os, json; print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups()]))'


def attack(box):
    for name in ODD:
        code = refusal(box.python(WHO, flags=['--user', name], may_refuse=True), 64, 65)
        assert code in ('policy', 'usage'), (name, code)
    for flag, uid, gid in (('12345', 12345, 12345), ('12345:54321', 12345, 54321), ('4294967294', 4294967294, 4294967294)):
        seen = box.inside(WHO, flags=['--user', flag])
        if seen[:2] != [[uid] * 3, [gid] * 3] or 0 in seen[2]:
            escaped('ESCAPE', f'--user {flag} became {seen}')
    return f'{len(ODD)} spellings refused, 3 taken exactly'


def control(box):
    """A parser that trusts the C library takes many of them for root, and a run shows who it is."""
    libc = ctypes.CDLL(None)
    libc.strtoul.restype = ctypes.c_ulong
    root = [name for name in ODD if name and libc.strtoul(name.encode(), None, 0) & 0xffffffff == 0]
    assert {'0x0', '+0', '4294967296', 'root'} <= set(root), root
    assert box.inside(WHO, flags=['--user', '77:78'])[:2] == [[77] * 3, [78] * 3]
    return f'strtoul takes {len(root)} of them for 0'
