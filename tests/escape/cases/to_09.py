"""TO-09: the compiler is a program too, and reads what strangers write."""
import shutil

from escape.harness import Untestable, escaped

TITLE = "compiler bombs"
TRIED = ("C that doubles macros 40 times, includes /dev/zero, has a 2 GiB array, errors without end, includes "
         "itself")
WALLS = ["timeout", "memory", "disk", "output_limit"]
CONTROL = "option"
DOUBLED = "\n".join(["#define A0 x,", *(f"#define A{n} A{n - 1} A{n - 1}" for n in range(1, 41))])
BOMBS = {
    "macros": DOUBLED + "\nint x, a[] = { A40 x };\nint main(void) { return 0; }",
    "device": '#include "/dev/zero"\nint main(void) { return 0; }',
    "array": "char a[2147483647] = {1};\nint main(void) { return a[5]; }",
    "errors": "\n".join(f"int f{n}=u{n}+;" for n in range(6000)),
    "itself": '#include __FILE__\n#include __FILE__\n',
}
ARRAY = "char a[24 << 20] = {1};\nint main(void) { return a[0] ? 7 : 8; }"
LIMITS = ["--timeout", "900ms", "--memory", "96m", "--disk", "16m", "--tmp-size", "8m", "--output-limit", "64k"]
ENDS = {"timeout", "oom", "nonzero", "disk", "output", "signal"}


def need_compiler():
    if not shutil.which("gcc"):
        raise Untestable("no compiler on this host")


def attack(box):
    need_compiler()
    told = []
    for name, code in BOMBS.items():
        done = box.run(code, "c", flags=LIMITS)
        if done.json["stage"] != "build" or done.verdict not in ENDS:
            escaped("ESCAPE", f"{name}: {done.verdict} in stage {done.json['stage']}")
        if done.seconds > 8 or len(done.out) + len(done.err) > 128 << 10:
            escaped("CRASH", f"{name}: {done.seconds:.1f} s, {len(done.err)} bytes")
        peak = done.json["memory_peak_bytes"] or 0
        if peak > 100 << 20:
            escaped("CRASH", f"{name}: {peak >> 20} MiB")
        told.append(f"{name} {done.verdict}")
    left = box.host.survivors()
    if left:
        escaped("ESCAPE", f"still running: {left}")
    return "; ".join(told)


def control(box):
    """The limit decides: the same array is refused with a small disk and built with a large one."""
    need_compiler()
    small = box.run(ARRAY, "c", flags=["--disk", "8m", "--tmp-size", "8m"])
    assert small.json["stage"] == "build" and small.verdict in ("disk", "nonzero"), small
    large = box.run(ARRAY, "c", flags=["--disk", "256m", "--tmp-size", "256m"])
    assert (large.json["stage"], large.code) == ("run", 7), large
    return f"24 MiB array: {small.verdict} in 8 MiB, built and run in 256 MiB"
