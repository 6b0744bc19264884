"""The ids that need a case: families of the threat catalogue and how many rows each has,
our own additions among them.

Rows about the service (AP, DR) and other back ends (BK) have suites of their own.
"""
FAMILIES = {
    "FS": (18, "File system"), "PS": (11, "/proc, /sys and identity"),
    "ML": (5, "Magic links"), "AR": (16, "Artifacts and names in host-side handling"),
    "FD": (7, "Descriptors"), "NS": (9, "Namespaces and privilege"), "SC": (19, "System calls"),
    "TY": (3, "Terminal"), "SG": (5, "Signals"), "PR": (5, "Processes"), "TO": (10, "Time-outs"),
    "ME": (11, "Memory"), "CP": (3, "CPU"), "DI": (6, "Disk"), "LI": (8, "Limits"),
    "CD": (1, "Core dumps"), "CL": (1, "Clock"), "OU": (6, "Output"), "RI": (5, "Reports"),
    "NE": (15, "Network"), "XS": (13, "Between sandboxes"),
}
# Attacks that the catalogue has no row for: found since, named like the rest.
OWN = ("SC-19",)
IDS = [f"{family}-{number:02}" for family, (count, _) in FAMILIES.items()
       for number in range(1, count + 1)]
