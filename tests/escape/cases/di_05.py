"""DI-05: make coto list a hundred thousand artifacts."""
from escape.harness import escaped
from escape.lib_files import folder, room

TITLE = "a hundred thousand artifacts"
TRIED = ("100 000 empty files in output/, and 3 000 levels of directories; the list, its size "
         "and the time measured")
WALLS = ["inodes"]
CONTROL = "option"
MANY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char name[16];
    int count = atoi(argv[1]);

    if (chdir("output"))
        return 1;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%d", i);
        if (close(open(name, O_CREAT | O_WRONLY, 0600)))
            return 2;
    }
    for (int i = 0; i < 3000; i++)
        if (mkdir("d", 0700) || chdir("d"))
            return 3;
    return 0;
}
"""
FLAGS = ["--inodes", "200000", "--disk", "512m", "--memory", "1g", "--timeout", "60s"]


def listed(box, count):
    with room() as here:
        result = box.run([box.c(MANY), count], flags=[*FLAGS, "--artifacts", folder(here / "out")], timeout=200)
        stored = sum(1 for path in (here / "out").rglob("*") if path.is_file())
    assert result.verdict == "ok", result
    return result, len(result.json["artifacts"]), stored


def attack(box):
    result, count, stored = listed(box, 100000)
    size = len(result.done.out)
    if size > 64 << 20 or result.seconds > 60 or count > 100000 or stored != count:
        escaped("CRASH", f"{count} listed, {stored} stored, {size >> 20} MiB of result, {result.seconds:.0f} s")
    if count + result.json["artifacts_skipped"] < 100000:
        escaped("CRASH", f"{count} listed, {result.json['artifacts_skipped']} skipped: some are not told")
    skipped = result.json["artifacts_skipped"]
    return f"{count} listed, {skipped} skipped, result of {size >> 10} KiB, {result.seconds:.1f} s"


def control(box):
    _, count, stored = listed(box, 500)
    assert count == stored == 500, (count, stored)
    return "500 files are all listed and stored"
