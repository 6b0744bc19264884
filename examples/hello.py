# Who am I, what can I see? Run it with: coto run examples/hello.py
import os
import socket

print("hello from a sandbox")
print(f"  user {os.getuid()}, process {os.getpid()}, host {socket.gethostname()}")
print(f"  in {os.getcwd()}: {sorted(os.listdir('.'))}")
print(f"  network interfaces: {[name for _, name in socket.if_nameindex()]}")
for path in ("/root", "/home", "/etc/shadow"):
    print(f"  {path}: {'visible' if os.access(path, os.R_OK) else 'out of reach'}")
