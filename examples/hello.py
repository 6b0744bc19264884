# Who am I, what can I see? Run it with: coto run examples/hello.py
import os
import socket

print("hello from a sandbox")
print(f"  user {os.getuid()}, process {os.getpid()}, host {socket.gethostname()}")
print(f"  in {os.getcwd()}: {sorted(os.listdir('.'))}")
with open("/proc/net/dev") as devices:
    print(f"  network interfaces: {[line.split(':')[0].strip() for line in devices if ':' in line]}")
for path in ("/root", "/home", "/etc/shadow"):
    print(f"  {path}: {'visible' if os.access(path, os.R_OK) else 'out of reach'}")
