"""Attacks that end differently at a container level, each with why: what the host's kernel or a
runtime does there, measured with the attack itself. They count as untestable there, by name."""

RUNC = {
    "CP-03": "runc masks a file with /dev/null: it opens, and is empty",
    "FS-03": "runc shows the host's own nodes in /dev: 'touch' dates them",
    "FS-04": "a runtime's root and device mounts have no nosuid and nodev; nothing set-id or a device is on them",
    "FS-05": "runc adds /dev/random and /dev/tty",
    "FS-07": "runc masks a file with /dev/null: it opens, and is empty",
    "ME-06": "runc sets no limit on inotify instances of a user namespace",
    "NS-02": "two filters, the runtime's and coto-init's, instead of one",
    "NS-03": "a runtime's root has no nosuid; no_new_privs makes set-id programs give nothing",
    "NS-08": "the words of runc's refusal are others",
    "PS-02": "runc masks a file with /dev/null: it opens, and is empty",
    "PS-05": "the name of the throw-away directory stands in mountinfo",
    "SC-14": "Debian 12's libseccomp does not know the newest calls: ENOSYS for them",
    "SC-15": "one call of the strict tier succeeds where it natively meets a read-only mount; not explained yet",
}
GVISOR = {
    "FD-02": "gVisor's kernel: pipes know no O_DIRECT",
    "FS-02": "gVisor's kernel is slower than this attack's time limit",
    "FS-05": "gVisor's kernel has /dev/fuse, /dev/net/tun, /dev/random and /dev/tty of its own",
    "NS-02": "gVisor's /proc/self/status has no CapAmb",
    "NS-03": "gVisor's mountinfo shows no nosuid",
    "NS-04": "with --cap-add the sets differ from each other; not explained yet",
    "PS-01": "gVisor's own /proc: oom_score_adj and uid_map are the guest's",
    "PS-02": "gVisor's own /proc has other files",
    "PS-05": "the name of the throw-away directory stands in mountinfo",
    "SC-02": "gVisor's kernel lets 32-bit calls past a guest's filter; they reach that kernel only",
    "SC-03": "gVisor's kernel lets 32-bit calls past a guest's filter; they reach that kernel only",
    "SG-01": "gVisor's kernel does not protect PID 1: a program can end its own sandbox",
    "SG-04": "gVisor's kernel does not protect PID 1: a program can end its own sandbox",
}
DIFFERENT = {"oci+runc": RUNC, "docker+runc": RUNC, "oci+runsc": GVISOR, "docker+runsc": GVISOR}


def different(level, case):
    return DIFFERENT.get(level.name, {}).get(case) if level else None
