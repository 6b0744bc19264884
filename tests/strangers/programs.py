"""Programs of the kind people run: name, language, code, and exactly what they must print.

NEEDS names Python modules that are no part of Python; a program whose module is not
installed here is not run, and that is said.
"""
import importlib.util

PROGRAMS = [
    ("numpy: linear algebra", "python", """
import numpy
a = numpy.arange(90000).reshape(300, 300) % 7
print((a @ a).shape, numpy.linalg.svd(a.astype(float))[1][0] > 0)
""", "(300, 300) True\n"),
    ("pandas: groups and time zones", "python", """
import pandas
frame = pandas.DataFrame({"a": [1, 2, 3], "t": pandas.date_range("2024-06-30", periods=3, tz="Europe/Madrid")})
print(frame.groupby(frame.t.dt.month).a.sum().to_dict(), frame.t[0].isoformat())
""", "{6: 1, 7: 5} 2024-06-30T00:00:00+02:00\n"),
    ("matplotlib: a picture, no display", "python", """
import matplotlib.pyplot as plot
plot.plot([1, 2, 4]); plot.title("ñ"); plot.savefig("output/a.png"); plot.show()
print(open("output/a.png", "rb").read(4))
""", "b'\\x89PNG'\n"),
    ("requests: no network, told cleanly", "python", """
import requests
try:
    requests.get("https://example.com", timeout=5)
except requests.exceptions.ConnectionError as error:
    print("Name or service not known" in str(error))
""", "True\n"),
    ("urllib: no network, told cleanly", "python", """
import urllib.error, urllib.request
try:
    urllib.request.urlopen("https://example.com", timeout=5)
except urllib.error.URLError as error:
    print(error.reason)
""", "[Errno -2] Name or service not known\n"),
    ("sqlite3: a database file with a log", "python", """
import sqlite3
base = sqlite3.connect("a.db")
print(base.execute("pragma journal_mode=wal").fetchone()[0])
base.execute("create table t(a)")
base.executemany("insert into t values (?)", [(n,) for n in range(1000)])
base.commit()
print(base.execute("select sum(a) from t").fetchone()[0])
""", "wal\n499500\n"),
    ("multiprocessing: three ways to start", "python", """
import multiprocessing
def square(n): return n * n
if __name__ == "__main__":
    for way in "fork", "spawn", "forkserver":
        with multiprocessing.get_context(way).Pool(2) as pool:
            print(way, sum(pool.map(square, range(10))))
""", "fork 285\nspawn 285\nforkserver 285\n"),
    ("multiprocessing: shared memory", "python", """
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=1 << 20)
block.buf[5] = 7
same = shared_memory.SharedMemory(block.name)
print(same.buf[5])
same.close(); block.close(); block.unlink()
""", "7\n"),
    ("concurrent.futures: threads", "python", """
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(50) as pool:
    print(sum(pool.map(len, ["ab"] * 500)))
""", "1000\n"),
    ("asyncio: server, client, subprocess", "python", """
import asyncio
async def answer(reader, writer):
    writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
async def main():
    server = await asyncio.start_server(answer, "localhost", 0)
    reader, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1])
    writer.write(b"hola\\n"); print(await reader.readline())
    child = await asyncio.create_subprocess_exec("echo", "sub", stdout=-1); print(await child.communicate())
asyncio.run(main())
""", "b'HOLA\\n'\n(b'sub\\n', None)\n"),
    ("http.server: answers on localhost", "python", """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("localhost", 0), http.server.SimpleHTTPRequestHandler)
server.RequestHandlerClass.log_message = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://localhost:{server.server_port}/main.py").status)
""", "200\n"),
    ("subprocess: who and where", "python", """
import subprocess
print(subprocess.run("whoami; hostname; pwd; echo $HOME; id -u", shell=True, capture_output=True, text=True).stdout, end="")
""", "sandbox\ncoto\n/workspace\n/workspace\n10000\n"),
    ("tempfile", "python", """
import os, tempfile
with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
    print(os.path.dirname(file.name), os.path.isdir(folder), tempfile.gettempdir(), os.access("/var/tmp", os.W_OK))
""", "/tmp True /tmp True\n"),
    ("locale and encoding", "python", """
import locale, sys
print(locale.setlocale(locale.LC_ALL, ""), sys.stdout.encoding, sys.getfilesystemencoding(), "ñ日本")
""", "C.UTF-8 utf-8 utf-8 ñ日本\n"),
    ("time zones", "python", """
import datetime, os, time, zoneinfo
print(datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("America/New_York")).isoformat())
os.environ["TZ"] = "Asia/Tokyo"; time.tzset(); print(time.tzname[0])
""", "2024-07-01T12:00:00-04:00\nJST\n"),
    ("file names in any script", "python", """
import os
for name in "ñandú", "日本語", "🎉", "with space", "-rf":
    open("output/" + name, "w").write(name)
open(b"output/\\xff\\xfe", "w")
print(len(os.listdir("output")), sorted(os.listdir(b"output"))[-1])
""", "6 b'\\xff\\xfe'\n"),
    ("names: services, protocols, MIME types of Office files", "python", """
import mimetypes, platform, socket
print(socket.getservbyname("https"), socket.getprotobyname("tcp"), mimetypes.guess_type("a.json")[0], platform.freedesktop_os_release()["ID"] != "")
""", "443 6 application/json True\n"),
    ("input that ends", "python", """
try:
    input()
except EOFError:
    print("end")
""", "end\n"),
    ("signals and timers", "python", """
import signal
signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
""", "alarm\n"),
    ("ctypes and mmap", "python", """
import ctypes, mmap, os
block = mmap.mmap(-1, 4096); block[0] = 5
print(ctypes.CDLL(None).getpid() == os.getpid(), block[0])
""", "True 5\n"),
    ("10 MB of output", "python", "print('x' * 10_000_000)", "x" * 10_000_000 + "\n"),
    ("unittest", "python", """
import unittest
class Case(unittest.TestCase):
    def test(self): self.assertEqual(1, 1)
print(unittest.main(exit=False).result)
""", "<unittest.runner.TextTestResult run=1 errors=0 failures=0>\n"),
    ("pytest", "python", """
import pathlib, subprocess, sys
pathlib.Path("test_a.py").write_text("def test(tmp_path, capsys): print(1); (tmp_path / 'a').write_text('x')\\n")
done = subprocess.run([sys.executable, "-m", "pytest", "-q"], capture_output=True, text=True)
print("1 passed" in done.stdout, done.returncode)
""", "True 0\n"),
    ("venv: an environment of one's own", "python", """
import subprocess, sys
subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], check=True)
print(subprocess.run(["env/bin/python", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True).stdout, end="")
""", "/workspace/env\n"),
    ("node: workers, children, http, no network", "node", """
const { Worker } = require('worker_threads'), http = require('http');
new Worker("require('worker_threads').parentPort.postMessage(6 * 7)", { eval: true }).on('message', n => {
  console.log(n, require('child_process').execSync('echo sub').toString().trim());
  const server = http.createServer((_, answer) => answer.end('x')).listen(0, () =>
    http.get({ port: server.address().port }, answer => {
      console.log(answer.statusCode); server.close();
      fetch('https://example.com').catch(error => console.log(error.cause.code));
    }));
});
""", "42 sub\n200\nENOTFOUND\n"),
    ("ruby: threads, JSON, temporary files", "ruby", """
require 'json'; require 'tempfile'; require 'net/http'
puts Thread.new { JSON.generate({ a: 1 }) }.value, File.dirname(Tempfile.new.path), `echo sub`
begin; Net::HTTP.get(URI('http://example.com')); rescue SocketError; puts 'no network'; end
""", '{"a":1}\n/tmp\nsub\nno network\n'),
    ("perl: modules, children", "perl", """
use JSON::PP; use File::Temp; use POSIX ();
print encode_json({a => 1}), "\\n", -e File::Temp->new ? "there\\n" : "", `echo sub`;
""", '{"a":1}\nthere\nsub\n'),
    ("php: JSON, dates, no network", "php", """<?php
date_default_timezone_set('Europe/Madrid');
echo json_encode(['a' => 1]), date(' I', 1719828000), PHP_EOL; var_dump(@file_get_contents('http://example.com'));
""", '{"a":1} 1\nbool(false)\n'),
    ("lua: a child and a temporary name", "lua", """
print(io.popen("echo sub"):read("l"), os.tmpname():match("^/tmp/") ~= nil)
""", "sub\ttrue\n"),
    ("bash: process substitution, jobs, here-text", "bash", """
set -e
diff <(echo a) <(echo a) && cat <<<here
coproc cat; echo co >&"${COPROC[1]}"; read -r -u "${COPROC[0]}" line; echo "$line"
seq 3 | xargs -P2 -n3 echo; awk 'BEGIN { print 1 / 4 }'; touch a; tar cf - a | tar tf -
""", "here\nco\n1 2 3\n0.25\na\n"),
    ("c: threads and the mathematics library", "c", """
#include <math.h>
#include <pthread.h>
#include <stdio.h>
static void *body(void *p) { *(double *)p = sqrt(2); return p; }
int main(void) { double d = 0; pthread_t t; pthread_create(&t, 0, body, &d); pthread_join(t, 0); printf("%.3f\\n", d); }
""", "1.414\n"),
    ("c++: threads and files", "c++", """
#include <filesystem>
#include <iostream>
#include <thread>
int main() { bool ok = false; std::thread t([&] { ok = true; }); t.join();
  std::cout << ok << std::filesystem::current_path() << "\\n"; }
""", '1"/workspace"\n'),
    ("go: goroutines, children, time zones", "go", """
package main
import ("fmt"; "os/exec"; "sync"; "time")
func main() {
	var group sync.WaitGroup
	for i := 0; i < 1000; i++ { group.Add(1); go group.Done() }
	group.Wait()
	place, _ := time.LoadLocation("Europe/Paris")
	out, _ := exec.Command("uname", "-n").Output()
	fmt.Print(time.Unix(0, 0).In(place).Hour(), string(out))
}
""", "1coto\n"),
    ("rust: threads and files", "rust", """
use std::{fs, thread};
fn main() {
    let all: Vec<_> = (0..8).map(|n| thread::spawn(move || n * n)).collect();
    let sum: i32 = all.into_iter().map(|one| one.join().unwrap()).sum();
    fs::write("output/a", "x").unwrap();
    println!("{}", sum);
}
""", "140\n"),
    ("java: executors, files, no network", "java", """
import java.nio.file.*; import java.util.concurrent.*; import java.util.stream.*;
public class Main { public static void main(String[] a) throws Exception {
  var pool = Executors.newFixedThreadPool(2);
  System.out.println(pool.submit(() -> IntStream.range(0, 100).parallel().sum()).get()); pool.shutdown();
  Files.writeString(Path.of("output/ñ.txt"), "x");
  try { new java.net.URL("http://example.com").openStream(); } catch (java.net.UnknownHostException e) { System.out.println("no network"); }
} }
""", "4950\nno network\n"),
]

NEEDS = {"numpy", "pandas", "matplotlib", "requests"}


def missing_module(name):
    """The module a program needs and this host does not have, or None."""
    module = name.split(":")[0]
    return module if module in NEEDS and importlib.util.find_spec(module) is None else None


ABSENT = [f"{row[0]}: {missing_module(row[0])} is not installed" for row in PROGRAMS if missing_module(row[0])]
