"""PS-07: the files of init in /proc lead to its memory, descriptors and root."""
from escape.harness import escaped
from escape.lib_files import attempts, counted

TITLE = "/proc/1 of init"
TRIED = ("mem, maps, environ, fd, root, cwd, exe, ns, auxv, fdinfo, map_files, task, io, stack of init opened "
         "and read as links")
WALLS = ["pid_namespace", "user_namespace", "landlock"]
NAMES = ["mem", "maps", "smaps", "environ", "fd", "fd/0", "fd/3", "root", "root/etc", "cwd", "exe", "ns/net", "ns/mnt",
         "auxv", "fdinfo", "map_files", "task/1/mem", "task/1/fd", "io", "stack", "syscall", "personality", "pagemap",
         "numa_maps", "timers"]
# Needs more than the same uid even of one's own process, or is not in every kernel.
SHY = {"stack", "syscall", "fd/3", "map_files", "numa_maps", "timers", "personality", "pagemap"}


def table(pid):
    return {name: f"attempt(os.open, '/proc/{pid}/{name}', os.O_RDONLY | os.O_NONBLOCK)" for name in NAMES}


def links():
    return {f"{name} as a link": f"attempt(os.readlink, '/proc/1/{name}')" for name in
            ("root", "cwd", "exe", "fd/0", "fd/3", "ns/net", "ns/user")}


def attack(box):
    found = attempts(box, table(1) | links())
    done = sorted(name for name, word in found.items() if word == "done")
    if done == ["timers"]:  # anybody's in older kernels; init has none
        done = [] if box.sh("cat /proc/1/timers").out == b"" else done
    if done:
        escaped("READ", f"/proc/1: {', '.join(done)}")
    own = attempts(box, {name: text for name, text in table("self").items()
                         if name not in SHY and not name.startswith("task")})
    assert set(own.values()) == {"done"}, own  # the same files of one's own process open
    return counted(found.values())


def control(box):
    found = attempts(box, table(1) | links(), without=["dumpable", "landlock", "capabilities"])
    done = [name for name, word in found.items() if word == "done"]
    assert {"mem", "maps", "environ", "fd", "root as a link"} <= set(done), found
    return f"{len(done)} of {len(found)} open when init is dumpable"
