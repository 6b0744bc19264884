"""Every row of the language table: hello world from a file and as text; a missing tool is named."""
import pytest

from .helpers import make_rootfs, ok, refused, run, run_json, tool

# name: file name, tool, Debian package, program
ROWS = {
    "python": ("x.py", "python3", "python3", "print('hello from python')"),
    "node": ("x.js", "node", "nodejs", "console.log('hello from node')"),
    "sh": ("x.sh", "sh", "dash", "echo hello from sh"),
    "bash": ("x.bash", "bash", "bash", "a=(hello from bash); echo ${a[@]}"),
    "perl": ("x.pl", "perl", "perl", 'print "hello from perl\\n";'),
    "ruby": ("x.rb", "ruby", "ruby", "puts 'hello from ruby'"),
    "php": ("x.php", "php", "php-cli", "<?php echo 'hello from ', 'php', PHP_EOL;"),
    "lua": ("x.lua", "lua", "lua5.4", "print('hello from lua')"),
    "c": ("x.c", "gcc", "gcc", '#include <stdio.h>\nint main(void) { puts("hello from c"); }'),
    "c++": ("x.cpp", "g++", "g++", '#include <iostream>\nint main() { std::cout << "hello from c++\\n"; }'),
    "go": ("x.go", "go", "golang-go",
           'package main\nimport "fmt"\nfunc main() { fmt.Println("hello from go") }'),
    "rust": ("x.rs", "rustc", "rustc", 'fn main() { println!("hello from rust"); }'),
    "java": ("Hello.java", "java", "default-jdk-headless",
             'class Hello { public static void main(String[] a) { System.out.println("hello from java"); } }'),
}
LIMITS = ("--timeout", "120s", "--memory", "1g")


def absent(name, done):
    """The tool is not on this host: then the run says which package brings it."""
    _, program, package, _ = ROWS[name]
    refused(done, 67, program, f"apt install {package}")


@pytest.mark.parametrize("name", ROWS)
def test_hello_from_a_file(name, tmp_path):
    file_name, program, _, code = ROWS[name]
    (tmp_path / file_name).write_text(code)
    done = run(*LIMITS, tmp_path / file_name, timeout=150)
    if not tool(program):
        return absent(name, done)
    assert ok(done) == f"hello from {name}\n".encode()


@pytest.mark.parametrize("name", ROWS)
def test_hello_as_text(name):
    _, program, _, code = ROWS[name]
    done = run(*LIMITS, "--lang", name, "-c", code, timeout=150)
    if not tool(program):
        return absent(name, done)
    assert ok(done) == f"hello from {name}\n".encode()


@pytest.mark.parametrize("alias, name", [("py", "python"), ("js", "node"), ("cpp", "c++"), ("rb", "ruby")])
def test_aliases(alias, name):
    assert ok(run("--lang", alias, "-c", ROWS[name][3], timeout=60)) == f"hello from {name}\n".encode()


@pytest.mark.parametrize("name", [name for name in ROWS if name != "sh"])
def test_missing_tool_names_the_package(name, tmp_path):
    """In a root file system that has nothing but a shell."""
    for folder in (tmp_path, *list(tmp_path.parents)[:1]):
        folder.chmod(0o755)
    root = make_rootfs(tmp_path / "root", programs=("/bin/sh",))
    refused(run("--rootfs", root, "--lang", name, "-c", "x"), 67, ROWS[name][1], ROWS[name][2])
    error = run_json("--rootfs", root, "--lang", name, "-c", "x")["error"]
    assert error["code"] == "tool_missing"


def test_build_errors_are_the_programs_own():
    result = run_json("--lang", "c", "-c", "int main(void) { return x; }")
    assert result["stage"] == "build" and result["verdict"] == "nonzero" and result["exit_code"] == 1
    assert "error" in result["stderr"]
    assert result["language"] == "c"


def test_built_program_gets_arguments_and_stdin():
    code = ("#include <stdio.h>\nint main(int n, char **v) { int c; printf(\"%s|\", v[1]); "
            "while ((c = getchar()) != EOF) putchar(c); return n; }")
    done = run("--lang", "c", "-c", code, "argument", input="input")
    assert (done.status, done.out) == (2, b"argument|input")


def test_unknown_language():
    refused(run("--lang", "cobol", "-c", "x"), 64, "cobol", "python")
    refused(run("-c", "no first line"), 64, "--lang")
    refused(run("--lang", "cobol", "--", "true"), 64, "cobol", "python")


def test_unknown_extension(tmp_path):
    file = tmp_path / "x.unknown"
    file.write_text("what is this")
    assert run(file).status in (64, 66) and b"--lang" in run(file).err
