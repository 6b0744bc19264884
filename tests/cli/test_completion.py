"""What bash and zsh offer when TAB is pressed: both are run on a terminal, and asked."""
import json
import os
import pty
import re
import signal
import time

import pytest

from .helpers import BIN, PATH, SLOW, SOURCE, coto, ok

# Each writes what it is about to offer to a file; nothing is inserted that matters, ^U clears the line.
BASH = f"""
PS1=
bind 'set bell-style none'
source {SOURCE}/completions/coto.bash
spy() {{
    _coto "$@"
    printf '%s\\n' "${{COMPREPLY[@]}}" > "$SPY.new"
    mv "$SPY.new" "$SPY"
}}
complete -F spy coto
: > "$SPY"
"""
ZSH = f"""
PS1=
fpath=({SOURCE}/completions $fpath)
autoload -Uz compinit
compinit -u -D
bindkey '^I' complete-word
bindkey '^U' kill-whole-line
typeset -ga hits
compadd() {{
    local -a found
    if [[ ${{@[1,(i)(-|--)]}} != *-(O|A|D)\\ * ]]; then
        builtin compadd -A found "$@"
        hits+=($found)
    fi
    builtin compadd "$@"
}}
begin() {{ hits=(); compprefuncs=(begin) }}
spy() {{
    print -lr -- $hits > $SPY.new
    mv $SPY.new $SPY
    compstate[list]= compstate[insert]= comppostfuncs=(spy)
}}
compprefuncs=(begin) comppostfuncs=(spy)
: > $SPY
"""


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, name, room, home):
        self.spy = room / "offered"
        (room / ("rc" if name == "bash" else ".zshrc")).write_text((BASH if name == "bash" else ZSH).replace("\\\\", "\\"))
        command = ["bash", "--noprofile", "--rcfile", str(room / "rc"), "-i"] if name == "bash" else ["zsh", "-o", "NO_GLOBAL_RCS", "-i"]
        env = {"PATH": f"{BIN}:{PATH}", "TERM": "vt100", "SPY": str(self.spy), "ZDOTDIR": str(room), "HOME": str(home),
               "COTO_IMAGES_DIR": str(home / "store"), "LANG": "C.UTF-8"}
        self.shown = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(home)
            os.execvpe(command[0], command, env)
        os.set_blocking(self.terminal, False)
        self.answer()

    def answer(self):
        end = time.monotonic() + 60 * SLOW
        while not self.spy.exists():
            assert time.monotonic() < end, self.shown[-2000:]
            try:
                self.shown += os.read(self.terminal, 65536)
            except BlockingIOError:
                time.sleep(0.01)
        lines = self.spy.read_text().splitlines()
        self.spy.unlink()
        return {line for line in lines if line}

    def offers(self, line):
        """Words offered after this line; of a list with commas the last."""
        os.write(self.terminal, b"\x15" + line.encode() + b"\t")
        return {word.rpartition(",")[2] for word in self.answer()}

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture(scope="module", params=["bash", "zsh"])
def shell(request, tmp_path_factory):
    """In a directory with a file, a directory and a store that holds box:1."""
    home = tmp_path_factory.mktemp("home")
    (home / "sub").mkdir()
    (home / "file.py").write_text("")
    (home / "tree/etc").mkdir(parents=True)
    ok(coto("image", "import", home / "tree", "box:1", f"--images-dir={home}/store"))
    made = Shell(request.param, tmp_path_factory.mktemp("shell"), home)
    yield made
    made.end()


FILES, DIRS = {"file.py", "sub", "tree", "store"}, {"sub", "tree", "store"}


def flags_of(*words):
    """Those that its help tells."""
    return set(re.findall(r"^[ *] (?:-\w, )?(--[\w-]+)", ok(coto(*words)).decode(), re.M)) | {"--help"}


def verbs_of(*words):
    return set(re.findall(r"^  (\w+)  +\w", ok(coto(*words)).decode(), re.M))


def test_every_verb(shell):
    verbs = verbs_of("help")
    assert {"run", "serve", "token"} <= verbs
    assert shell.offers("coto ") == shell.offers("coto help ") | {"--help"} == verbs | {"--help"}
    assert shell.offers("coto d") == {"doctor"} and shell.offers("coto nothing") == set()


@pytest.mark.parametrize("verb", ["run", "test", "policy explain", "serve"])
def test_every_flag(shell, verb):
    told = flags_of("serve", "--help") if verb == "serve" else flags_of("help", verb.split()[0])
    assert len(told) > 40 and shell.offers(f"coto {verb} --") == told


@pytest.mark.parametrize("tool", ["image", "pki", "token"])
def test_every_verb_and_flag_of_the_tools(shell, tool):
    verbs = verbs_of(tool, "--help")
    assert shell.offers(f"coto {tool} ") - {"--help"} == verbs and len(verbs) >= 4
    for verb in verbs:
        assert shell.offers(f"coto {tool} {verb} --") == flags_of(tool, verb, "--help"), verb


def test_the_small_verbs(shell):
    for verb in ("doctor", "version"):
        assert shell.offers(f"coto {verb} --") == {"--json", "--help"}
    assert shell.offers("coto profiles ") == {"list", "show", "--json", "--help"}
    assert shell.offers("coto policy ") == {"explain", "check", "--help"}
    assert shell.offers("coto policy check ") - {"--json", "--help"} == FILES
    assert shell.offers("coto policy check --") == {"--json", "--help"}


PROFILES = {"default", "antigravity", "deepresearch", "enis", "gemini", "ia-libre"}
LANGUAGES = {"python", "node", "sh", "bash", "perl", "ruby", "php", "lua", "c", "c++", "go", "rust", "java"}
RUNTIMES = {"runc", "crun", "runsc", "kata-runtime"}


def test_the_profiles_are_all_there_are():
    assert {row["name"] for row in json.loads(ok(coto("profiles", "--json")))["profiles"]} == PROFILES


@pytest.mark.parametrize("line, words", [
    ("run --profile ", PROFILES), ("profiles show ", PROFILES), ("serve --profile ", PROFILES), ("serve --allow-profile=g", {"gemini"}),
    ("run --lang ", LANGUAGES), ("run --lang=", LANGUAGES), ("test --lang p", {"python", "perl", "php"}), ("run --lang=py", {"python"}),
    ("run --isolation ", {"process", "subprocess", "container", "docker", "vm"}), ("run --isolation=c", {"container"}),
    ("run --seccomp ", {"strict", "default", "debug"}), ("policy explain --seccomp d", {"default", "debug"}),
    ("run --network ", {"none", "allow-list"}), ("run --idmap ", {"auto", "single", "subuid"}), ("run --on-output-limit ", {"cut", "kill"}),
    ("run --runtime ", RUNTIMES), ("run --cap-add ", {"chown", "fowner", "setuid", "setgid"}), ("run --allow-runtime runs", {"runsc"}),
    ("run --require land", {"landlock"}), ("run --require seccomp,landlock,pid", {"pid_namespace", "pids"}),
    ("run --report-include=code,", {"prompt", "output", "env"}), ("run --workspace-writable ", {"all", "output"}),
    ("test --runner ", {"go", "pytest", "unittest", "node", "ctest", "make"}), ("serve --high-isolation ", {"container", "docker", "none"}),
    ("serve --durability=", {"promises", "disk", "kernel", "off"}), ("serve --cold ", {"no", "yes"}), ("serve --allow-isolation h", {"high"}),
    ("image sbom box:1 --format ", {"spdx", "cyclonedx"}), ("image sbom --format c", {"cyclonedx"}), ("pki issue ", {"server", "client"}),
    ("token keygen ", {"hs256", "es256", "eddsa", "rs256"}), ("token keygen e", {"es256", "eddsa"}),
    ("run --image ", {"box:1"}), ("image show ", {"box:1"}), ("image verify b", {"box:1"}),
    ("run --memory ", set()), ("run --hostname ", set()), ("image import --max-files ", set()),
])
def test_values(shell, line, words):
    offered = shell.offers(f"coto {line}")
    # bash does not leave out of a list what it has already
    assert offered == words or (line == "run --report-include=code," and offered == words | {"code"})


def test_a_colon(shell):
    """readline takes it as the end of a word."""
    assert {word.rpartition(":")[2] for word in shell.offers("coto image show box:")} == {"1"}
    assert {word.rpartition(":")[2] for word in shell.offers("coto run --image=box:")} == {"1"}


@pytest.mark.parametrize("line, files", [
    ("run ", FILES), ("run f", {"file.py"}), ("test ", FILES), ("run --policy ", FILES), ("run --artifacts ", DIRS), ("run --report s", {"sub", "store"}),
    ("run --copy ", FILES), ("run --mount=fi", {"file.py"}), ("run --images-dir=", DIRS), ("test --junit ", FILES), ("run --memory 1g ", FILES),
    ("serve --config ", FILES), ("serve --tls-key=f", {"file.py"}), ("serve --state-dir ", DIRS), ("image import ", FILES),
    ("image sign box:1 --key ", FILES), ("image list --images-dir ", DIRS), ("pki init ", FILES), ("pki list --dir ", DIRS),
    ("token mint --key ", FILES), ("token jwks ", FILES), ("serve ", set()),
])
def test_files(shell, line, files):
    offered = shell.offers(f"coto {line}")
    assert {word for word in offered if not word.startswith("-")} == files
