"""Attacks that end differently at a container level: what they then say (a pattern), and why. They are run, and
must end just so: one that holds, or that says something else, is a failure. The process level is what the
others are measured by; docs/ISOLATION_STRATEGIES.md has this as a table, made by tests/levels-run."""

MASKED = "a runtime masks a file with /dev/null: it opens, and is empty"
NO_NOSUID = ("a runtime's root and its masks have no nosuid and nodev; they hold nothing set-id and no device, and"
             " no_new_privs makes set-id programs give nothing")
DIRECTORY = ("names of the sandbox's own directories on the host stand in mountinfo: they tell sandboxes apart, "
             "and coto's pid")
LIBSECCOMP = ("Debian 12's libseccomp does not know the newest calls: the runtime's filter answers ENOSYS, coto-"
              "init's would let them pass")
COPY = ("coto-init lies in the container, where Landlock lets files be executed: it starts once more as the program and"
        " with its rights, from a copy that is the sandbox's own")
TWO_FILTERS = "two filters, the runtime's and coto-init's, instead of one"

INSIDE = ("a place inside a writable mount is refused: a runtime would look its name up again, as root, while"
          " others can change it")
NESTED = {case: (r"lies in the writable mount", INSIDE) for case in ("FS-09", "FS-14", "FS-15")}
RUNC = {
    "CP-03": (r"READ: |interrupts", MASKED),
    "FS-07": (r"/proc/keys", MASKED),
    "PS-02": (r"^/proc/interrupts", MASKED),
    "FS-04": (r"^/ without nosuid", NO_NOSUID),
    "NS-03": (r"set-id counts on \['/', ", NO_NOSUID),
    "ME-06": (r"'inotify': \[128, 'EMFILE'\]",
              "no runtime limits inotify instances of a sandbox; the kernel's own limit for a user holds"),
    "ML-05": (r"^it ran: b'\\x0e", COPY),
    "NS-02": (r"no_new_privs 1, 2 filters", TWO_FILTERS),
    "NS-08": (r"two ids to map", "runc needs two ids in its user namespace, so it is refused sooner, in other words"),
    "PS-05": (r"mountinfo: coto-", DIRECTORY),
    "XS-09": (r"^mounts: ", DIRECTORY),
    "SC-14": (r"^\d differ from the table: default mseal ENOSYS", LIBSECCOMP),
    "SC-15": (r"1 answers differ: 40_1ce_0_0_0_0_0_0: ENOSYS", LIBSECCOMP),
}

# ---- an engine ----

NOT_OFFERED = "not offered at this level, and refused: nothing of the host is mounted, and the root is an image"
REFUSED = r"isolation docker (mounts nothing of the host|takes its root file system from an image)"
SYSFS = "an engine mounts /sys, its cgroups and a message queue file system, read-only or the container's own"
IMAGE = "the image's own files, not the host's"
OF_ENGINE = {
    **{case: (REFUSED, NOT_OFFERED) for case in (
        "AR-03 AR-04 AR-05 AR-06 AR-07 AR-13 FS-08 FS-09 FS-10 FS-11 FS-14 FS-15 FS-16 FS-17 ME-05 ML-02 "
        "ML-03 ML-04 ML-05 RI-04 TO-07").split()},
    "FS-04": (r"no line: b''", NOT_OFFERED),
    "DI-02": (r"^AssertionError: oom", "the workspace is memory, and its limit is met before that of files"),
    "FS-01": (r"^/boot, /etc/fstab", IMAGE),
    "NE-06": (r"no such name",
              "a container without a network gets no /etc/hosts from its engine: localhost has no name unless the"
              " image has one"),
    "NS-07": (r"start 'bwrap'", "the image has not the programs that this attack uses"),
    "XS-10": (r"FileNotFoundError", "the image has not the programs that this attack uses"),
    "NS-04": (r"'added': \{0, 1\}",
              "an engine gives an added capability to root only: for other users it stays in the bounding set"),
    "NS-05": (r"uids and gids must be in range", "runc takes uids below 2^31 only"),
    "PS-08": (r"the host's own: user",
              "an engine without userns-remap has no user namespace: wall user_namespace is listed as missing"),
    "PS-09": (r"/sys/fs/cgroup", SYSFS),
    "PS-11": (r"sysfs", SYSFS),
    "LI-06": (r"cgroup file systems", SYSFS),
}
DOCKER_RUNC = {
    **RUNC, **OF_ENGINE,
    "CP-03": (r"interrupts", MASKED),
    "FS-03": (r"^date /dev/", "an engine makes device nodes in a tmpfs of the container: their dates are its own"),
    "FS-05": (r"/dev/random', '/dev/tty'", "runc adds /dev/random and /dev/tty"),
    "NS-08": (r"no user namespaces left: it ran",
              "an engine without userns-remap has no user namespace: wall user_namespace is listed as missing"),
    "SC-15": (r"40_118_0_0_0_0_0_0: ok, not",
              "an engine makes device nodes in a tmpfs of the container: their dates are its own"),
}

# ---- gVisor: what speaks of the guest's own kernel ----

NOT_SEEN = "its programs are no processes of the host: there is nothing to look at from outside"
OWN_PROC = "gVisor's own /proc: what is written there reaches its kernel only, and some files are missing"
OWN_CALLS = ("gVisor's kernel has fewer calls and other answers; the filter in it is coto's, and its kernel is "
             "behind a filter of its own")
BITS_32 = "gVisor's kernel lets 32-bit calls past a filter inside; they reach that kernel only"
NO_WAY = "gVisor's kernel lacks what the attack is made with"
NOT_COUNTED = "gVisor counts neither files nor processes: walls inodes and pids are listed as missing"
MEMORY = "what is written is memory of its kernel, and meets the memory limit"
INIT = ("gVisor's kernel does not protect PID 1, nor its /proc, from programs of the same uid: a program can "
        "end its own sandbox, and forge what it says itself")
GVISOR = {
    **{case: (r"no program found|StopIteration|'runsc'|\['coto-", NOT_SEEN)
       for case in "CP-03 LI-06 ME-08 NS-09 PR-04 RI-02 SC-12 XS-07".split()},
    "AR-03": (r"status 1", NO_WAY),
    "AR-05": (r"status 1", NO_WAY),
    "FS-09": (r"status 1", NO_WAY),
    "ML-03": (r"status 1", NO_WAY),
    "AR-07": (r"Invalid argument", "gVisor of Debian 12 answers statx with AT_NO_AUTOMOUNT by EINVAL: ls fails"),
    "ML-05": (r"^it ran: b'\\x0e", COPY),
    "ML-04": (r"\(40864, '', '2', ", NO_WAY),  # no line NoNewPrivs
    "DI-01": (r"^\{\}", NO_WAY),
    "ME-04": (r"VmLck", NO_WAY),
    "FD-02": (r"Invalid argument", NO_WAY),
    "TY-02": (r"tcsetattr", NO_WAY),
    "PS-06": (r"sysvipc", NO_WAY),
    "XS-02": (r"sysvipc", NO_WAY),
    "XS-09": (r"domainname", NO_WAY),
    "PS-08": (r"'mnt'", NO_WAY),
    "NS-02": (r"CapAmb", NO_WAY),
    "AR-10": (r"it ran", NOT_COUNTED), "PR-01": (r"ended", NOT_COUNTED), "PR-02": (r"600 threads", NOT_COUNTED),
    "DI-02": (r"oom", MEMORY), "ME-05": (r"not as oom", MEMORY),
    "CP-02": (r"'nice': 'ok'", "nice values are the guest kernel's; the host's scheduler sees none of them"),
    "LI-03": (r"^nice, own", "nice values are the guest kernel's; the host's scheduler sees none of them"),
    "FD-04": (r"^0 descriptors of init copied", INIT), "PS-07": (r"/proc/1: ", INIT),
    "SG-01": (r"did not survive", INIT), "SG-04": (r"init was killed", INIT),
    "FS-03": (r"^date /dev/", "gVisor's devices are its own: dates of them are, too"),
    "FS-04": (r"without nosuid", "gVisor's mountinfo tells no nosuid and nodev"),
    "NS-03": (r"set-id counts", "gVisor's mountinfo tells no nosuid and nodev"),
    "FS-05": (r"/dev/fuse", "gVisor's kernel has /dev/fuse, /dev/net/tun, /dev/random and /dev/tty of its own"),
    "FS-16": (r"^loader", "gVisor keeps noexec for execve, not for a mapping that is made executable"),
    "LI-04": (r"oom_score_adj", OWN_PROC),
    "ME-09": (r"lowered by", OWN_PROC),
    "PS-01": (r"/proc/self/oom_score_adj", OWN_PROC),
    "PS-02": (r"iomem", OWN_PROC),
    "PS-05": (r"mountinfo: coto-", DIRECTORY),
    "PS-09": (r"/sys/fs/cgroup", "gVisor has a /sys of its own"),
    "PS-11": (r"sysfs", "gVisor has a /sys of its own"),
    "ME-03": (r"huge pages", OWN_CALLS),
    "SC-08": (r"'persona': 'EINVAL'", OWN_CALLS),
    "SC-14": (r"differ from the table", OWN_CALLS),
    "SC-15": (r"answers differ", OWN_CALLS),
    "SC-17": (r"'query': 'EINVAL'", OWN_CALLS),
    "SC-18": (r"vm86old EPERM", OWN_CALLS), "SC-02": (r"getpid ok", BITS_32), "SC-03": (r"alg ok", BITS_32),
    "ME-06": (r"'terminals': \[0, 'EROFS'\], 'inotify': \[500",
              "inotify instances are objects of gVisor's kernel, and meet the memory limit, as terminals do that --ptys asks for"),
    "NS-04": (r"'added': \{0, 1\}",
              "gVisor has no ambient capabilities: an added one is inheritable after execve, and not in force"),
    "NS-08": (r"no user namespaces left", "the words of runsc's refusal are others"),
    "XS-01": (r"device of /",
              "device numbers of gVisor's tmpfs are the same in each sandbox; they are not the host's"),
    "XS-13": (r"heap", "gVisor does not randomise where the heap begins"),
}
# Of two reasons, the one that is met first.
DOCKER_GVISOR = {
    **GVISOR, **OF_ENGINE, "AR-07": GVISOR["AR-07"], "LI-06": GVISOR["LI-06"], "PS-08": GVISOR["PS-08"],
    **{case: (r"TypeError: '.' not supported between instances of 'NoneType' and 'int'",
              "a container that memory ended is gone at once, with its engine's account of it: no peak is told")
       for case in ("ME-01", "ME-02", "ME-05", "ME-07", "ME-10")},
}
del DOCKER_GVISOR["TY-02"]  # no terminal of its own to do it with
DIFFERENT = {"oci+runc": {**RUNC, **NESTED}, "docker+runc": DOCKER_RUNC, "oci+runsc": {**NESTED, **GVISOR}, "docker+runsc": DOCKER_GVISOR}
# How a set of levels is called in the table.
ALIKE = {("oci+runc", "docker+runc"): ("runc",), ("oci+runsc", "docker+runsc"): ("gVisor",),
         ("docker+runc", "docker+runsc"): ("docker",),
         ("oci+runc", "docker+runc", "oci+runsc", "docker+runsc"): ("all",)}


def different(level, case):
    return DIFFERENT.get(level.name, {}).get(case) if level else None
