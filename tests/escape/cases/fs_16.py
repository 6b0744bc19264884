"""FS-16: run a program that was brought along, where the policy says that none may be."""
from escape.lib_files import all_done, all_refused, attempts, folder, room

TITLE = "programs from writable places with --noexec"
TRIED = "execve from 5 places, memfd, O_TMPFILE, through ld.so, a script's #!, PROT_EXEC mappings, by link and rename"
WALLS = ["mount_namespace", "landlock", "seccomp"]
CONTROL = "option"

SETUP = """
def ran(*argv, fd=None):
    pid = os.fork()
    if pid == 0:
        try: os.execve(fd if fd is not None else argv[0], list(argv), {})
        except OSError as reason: os._exit(100 + min(reason.errno, 27))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status: raise OSError(status - 100 if 100 < status < 127 else errno.ENOEXEC, "")
def copied(path):
    shutil.copy("/bin/true", path); os.chmod(path, 0o755)
    return path
def by_descriptor(path):
    fd = os.open(copied(path), os.O_RDONLY)
    os.set_inheritable(fd, True)
    ran(loader, f"/proc/self/fd/{fd}")
def memory(flags):
    fd = os.memfd_create("x", flags)
    os.write(fd, open("/bin/true", "rb").read())
    ran("true", fd=fd)
def unnamed(place):
    fd = os.open(place, os.O_TMPFILE | os.O_RDWR, 0o755)
    os.write(fd, open("/bin/true", "rb").read())
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)
    ran("true", fd=again)
def script(path, interpreter):
    open(path, "w").write(f"#!{interpreter}\\n"); os.chmod(path, 0o755)
    ran(path)
def mapped(path):
    copied(path)
    mmap.mmap(os.open(path, os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
loader = [name for name in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(name)][0]
def renamed():
    copied("/workspace/r"); os.mkdir("/workspace/sub"); os.rename("/workspace/r", "/workspace/sub/r")
    ran("/workspace/sub/r")
"""
TABLE = {f"from {place}": f"attempt(lambda: ran(copied('{place}/t')))"
         for place in ("/workspace", "/workspace/output", "/tmp", "/dev/shm", "/cache", "/rw")}
TABLE.update({
    "memfd": "attempt(memory, 0)",
    "memfd with exec": "attempt(memory, 16)",
    "tmpfile": "attempt(unnamed, '/workspace')",
    "tmpfile in /tmp": "attempt(unnamed, '/tmp')",
    "loader": "attempt(lambda: ran(loader, copied('/workspace/l')))",
    "loader by descriptor": "attempt(by_descriptor, '/tmp/l')",
    "script": "attempt(script, '/workspace/s', '/bin/true')",
    "interpreter": "attempt(script, '/tmp/s', copied('/tmp/i'))",
    "mapping": "attempt(mapped, '/workspace/m')",
    "mapping in /dev/shm": "attempt(mapped, '/dev/shm/m')",
    "link": "attempt(lambda: [os.symlink(copied('/tmp/x'), '/tmp/y'), ran('/tmp/y')])",
    "rename": "attempt(renamed)",
    "magic link": "attempt(lambda: ran('/proc/self/cwd/' + os.path.basename(copied('/workspace/q'))))",
})


def flags(here):
    return ["--tmpfs", "/cache", "--mount", f"{folder(here / 'rw')}:/rw:rw"]


def attack(box):
    with room() as here:
        found = attempts(box, TABLE, SETUP, flags=["--noexec", *flags(here)])
    return all_refused(found, "ESCAPE")


def control(box):
    with room() as here:
        return all_done(attempts(box, TABLE, SETUP, flags=flags(here)))
