"""What a program has the kernel write down is what the host's log is full of. Others' refusals are written there too, so it
runs alone, as root."""
import subprocess

from .test_apparmor import ATTACKS, TRY


def refusals():
    """Those of AppArmor, as root sees them."""
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.count('apparmor="DENIED"')


def test_signals_to_init_are_not_written_down(box):
    """A program could send as many as it makes calls. The control is refused what no rule names."""
    before, box.behind = refusals(), set()
    assert box.python(TRY + "print(*(answer(os.kill, 1, n) for n in (0, 10, 15)))").text == "EACCES EACCES EACCES"
    assert refusals() == before
    assert box.python(TRY + ATTACKS["socket family"][1], without=["seccomp"]).text == "EACCES"
    assert refusals() > before
