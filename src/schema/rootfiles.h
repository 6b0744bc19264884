/* The root that is made of the host's own programs: which of its directories and files are
 * shown, and which are fresh. One table for init (native) and the oci driver's bundle. */
#pragma once

/* Read-only, with links as they are. */
static const char *const coto_root_dirs[] = {"/usr",   "/bin",   "/sbin",  "/lib",
                                             "/lib64", "/lib32", "/libx32"};

/* What programs need to start: the loader's cache, Debian's alternatives,
 * and language run-times and libraries that keep a part of themselves here. HTTP
 * clients want certificates before they find out that there is no network. */
static const char *const coto_root_etc[] = {
    "ld.so.cache", "alternatives",    "ssl/openssl.cnf", "localtime",       "php",
    "fonts",       "java-17-openjdk", "java-11-openjdk", "java-21-openjdk", "os-release",
    "ssl/certs",   "matplotlibrc",    "mime.types",
};

/* Names of services and protocols: programs look them up before they find out that there
 * is no network, and localhost has ports too. */
static const struct {
    const char *path, *text;
} coto_root_files[] = {
    {"etc/resolv.conf", "# no network\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"
                          "services: files\nprotocols: files\n"},
    {"etc/services",
     "echo 7/tcp\necho 7/udp\ndaytime 13/tcp\nftp 21/tcp\nssh 22/tcp\ntelnet 23/tcp\n"
     "smtp 25/tcp mail\ndomain 53/tcp\ndomain 53/udp\nhttp 80/tcp www\npop3 110/tcp\n"
     "ntp 123/udp\nimap2 143/tcp imap\nldap 389/tcp\nhttps 443/tcp\nhttps 443/udp\n"
     "imaps 993/tcp\npop3s 995/tcp\nmysql 3306/tcp\npostgresql 5432/tcp\nredis 6379/tcp\n"},
    {"etc/protocols", "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6 41 IPv6\n"
                      "ipv6-icmp 58 IPv6-ICMP\n"},
};

/* printf formats: name, uid, gid, name, workspace; name, gid; host name; host name. */
#define COTO_ROOT_PASSWD                                                                           \
    "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"                                             \
    "%s:x:%u:%u:%s:%s:/bin/sh\n"                                                                   \
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
#define COTO_ROOT_GROUP "root:x:0:\n%s:x:%u:\nnogroup:x:65534:\n"
#define COTO_ROOT_HOSTS "127.0.0.1 localhost %s\n::1 localhost\n"
#define COTO_ROOT_HOSTNAME "%s\n"
