/* The rules on arguments as data: what seccomp.c compiles and seccomp_rows.c spells out for
 * other compilers. Private to these two. */
#pragma once

#include "kernel/seccomp_table.h"

#include <stdint.h>

enum check_id {
#define X(id, error, words) CHECK_##id,
    COTO_SYSCALL_CHECKS(X)
#undef X
        CHECK_COUNT
};

/* Own copies of what is compared: C libraries differ in which they define. */
enum {
    NEW_FLAGS = 0x7e020000, /* CLONE_NEW*; NEWTIME lies in clone(2)'s signal bits: clone3 only */
    REQ_TCGETS = 0x5401,
    REQ_FIONREAD = 0x541b,
    REQ_FIONBIO = 0x5421,
    REQ_TIOCSTI = 0x5412,
    REQ_TIOCLINUX = 0x541c,
    REQ_TIOCCONS = 0x541d,
    REQ_TIOCSETD = 0x5423, /* loads line disciplines, a steady source of kernel bugs */
    REQ_SETFLAGS = 0x40086602,
    REQ_FSSETXATTR = 0x401c5820,
    /* For these, and the number after each, the kernel loads code of bridges, frame relay and VLANs before
     * it asks who wants that: SIOCGIFBR and SIOCSIFBR, SIOCADDDLCI, SIOCGIFVLAN, SIOCBRADDBR, SIOCBRADDIF and so on. */
    REQ_IFBR = 0x8940,
    REQ_DLCI = 0x8980,
    REQ_IFVLAN = 0x8982,
    REQ_BRIDGE = 0x89a0,
    REQ_BRIDGE_IF = 0x89a2,
    /* Of btrfs, for anybody: subvolumes and snapshots, which outlive a tree's removal when they are read-only, and a
     * sync of the whole file system, also by a file of /usr. Of several: a file that nobody can write to again. */
    REQ_SNAPSHOT = 0x50009401,
    REQ_SNAPSHOT_V2 = 0x50009417,
    REQ_SUBVOLUME = 0x5000940e,
    REQ_SUBVOLUME_V2 = 0x50009418,
    REQ_SUBVOLUME_FLAGS = 0x4008941a,
    REQ_SYNC = 0x9408,
    REQ_VERITY = 0x40806685,
    /* Locks of an open file: no limit counts them, and in a socket nobody sees them. Who asks for them first
     * (F_OFD_GETLK) takes those of a process instead. */
    /* A signal of the caller's choice to a process of the caller's choice, by way of input (SIGIO). */
    CMD_SETOWN = 8,
    CMD_SETSIG = 10,
    CMD_SETOWN_EX = 15,
    CMD_OFD_GETLK = 36,
    CMD_OFD_SETLK = 37,
    CMD_OFD_SETLKW = 38,
    CMD_SETLEASE = 1024,
    RES_CORE = 4,
    CMD_NOTIFY = 1026,
    CMD_SETDELEG = 1040, /* Linux 6.19: a lease by another name */
    WHITEOUT = 4,        /* leaves a device node, which mknod may not make */
    OPT_SET_SECCOMP = 22,
    OPT_SET_MM = 35,
    OPT_SCHED_CORE = 62, /* a cookie of one's own idles the neighbour's hyperthread */
    /* Pages of the same content in other processes and virtual machines, which a write then tells. */
    OPT_MEMORY_MERGE = 67,
    OPT_SET_VMA = 0x53564d41,
    ADVICE_MERGEABLE = 12,
    ADVICE_COLLAPSE = 25, /* of a file: for all who have it, who see it */
    OPT_SET_PTRACER = 0x59616d61,
    TYPE_FLAGS = 04000 | 02000000, /* SOCK_NONBLOCK, SOCK_CLOEXEC */
    FAMILY_UNIX = 1,
    FAMILY_INET = 2,
    FAMILY_INET6 = 10, /* no netlink: a cgroup does not count what its sockets hold */
    TYPE_STREAM = 1,
    TYPE_DGRAM = 2,
    TYPE_SEQPACKET = 5,
    PROTO_IP = 0,
    PROTO_TCP = 6,
    PROTO_UDP = 17,
    PROTO_IPV6 = 41,
    LEVEL_SOCKET = 1,
    ADVICE_DONTNEED = 4,
    MODE_SETID = 06000,
    OPEN_CREATES = 0x400040, /* O_CREAT, O_TMPFILE: else there need not be a mode */
    MODE_TYPE = 0170000,
    MODE_REGULAR = 0100000,
    MODE_FIFO = 0010000,
    MODE_SOCKET = 0140000,
    RESET_ON_FORK = 0x40000000,
    SEND_MORE = 0x8000,   /* MSG_MORE; like UDP_CORK it keeps datagrams no cgroup counts */
    SEND_FASTOPEN = 0x20000000, /* connects; Landlock does not ask about it (6.18) */
    READ_NOWAIT = 8,      /* RWF_NOWAIT tells what others have read from a shared file */
    WATCH_READS = 0x31,   /* IN_ACCESS, IN_OPEN, IN_CLOSE_NOWRITE: /usr is the host's own */
    MAP_HUGE = 0x40000,   /* the host's reserve of huge pages is in no memory limit */
    MEMFD_HUGE = 4,
    SHM_HUGE = 04000,     /* for members of vm.hugetlb_shm_group */
};

#define REQ_START_SYNC 0x80089418u /* no enum has that */

/* One argument, by its low word: (low & mask) is one of the values. In a rule
 * that allows by value the high word must be zero besides. */
struct term {
    unsigned char arg;
    unsigned char count;
    uint32_t mask;
    uint32_t values[8];
};

enum check_kind {
    DENY_BITS,   /* fails when a bit of the mask is set, and one of the second term's, if any */
    DENY_VALUES, /* fails when the first term of a clause matches, whatever the high word */
    ALLOW,       /* holds when all terms of one clause match */
};

struct check {
    enum check_kind kind;
    struct term clauses[3][3]; /* ends at a term without values */
};

#define ANY_BIT 0xffffffffu
#define VALUES(...)                                                                                \
    sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), ANY_BIT, { __VA_ARGS__ }
#define MASKED(mask, ...)                                                                          \
    sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), mask, { __VA_ARGS__ }
#define MODES MASKED(MODE_TYPE, 0, MODE_REGULAR, MODE_FIFO, MODE_SOCKET)
#define PLAIN_MODES MASKED(MODE_TYPE | MODE_SETID, 0, MODE_REGULAR, MODE_FIFO, MODE_SOCKET)
#define TYPES(...) MASKED(~(uint32_t)TYPE_FLAGS, __VA_ARGS__)
#define UNIX_CLAUSE                                                                                \
    {                                                                                              \
        {0, VALUES(FAMILY_UNIX)}, {1, TYPES(TYPE_STREAM, TYPE_DGRAM, TYPE_SEQPACKET)},             \
        {2, VALUES(0)}                                                                             \
    }
/* Of other pairs the kernel has none, and starts modprobe twice to look for one. */
#define INET_CLAUSE(type, protocol)                                                                \
    {                                                                                              \
        {0, VALUES(FAMILY_INET, FAMILY_INET6)}, {1, TYPES(type)}, {2, VALUES(0, protocol)}         \
    }

static const struct check checks[CHECK_COUNT] = {
    [CHECK_CLONE] = {DENY_BITS, {{{0, 0, NEW_FLAGS, {0}}}}},
    [CHECK_IOCTL] = {DENY_VALUES,
                     {{{1, VALUES(REQ_TIOCSTI, REQ_TIOCLINUX, REQ_TIOCCONS, REQ_TIOCSETD,
                                  REQ_SETFLAGS, REQ_FSSETXATTR)}},
                      {{1, MASKED(~1u, REQ_IFBR, REQ_DLCI, REQ_IFVLAN, REQ_BRIDGE, REQ_BRIDGE_IF)}},
                      {{1, VALUES(REQ_SNAPSHOT, REQ_SNAPSHOT_V2, REQ_SUBVOLUME, REQ_SUBVOLUME_V2,
                                  REQ_SUBVOLUME_FLAGS, REQ_SYNC, REQ_START_SYNC, REQ_VERITY)}}}},
    [CHECK_FCNTL] = {DENY_VALUES,
                     {{{1, VALUES(CMD_OFD_GETLK, CMD_OFD_SETLK, CMD_OFD_SETLKW, CMD_SETLEASE,
                                  CMD_SETDELEG, CMD_NOTIFY)}}}},
    [CHECK_OWN_IOCTL] = {ALLOW, {{{1, VALUES(REQ_TCGETS, REQ_FIONREAD, REQ_FIONBIO)}}}},
    [CHECK_OWN_LIMIT] = {ALLOW, {{{0, VALUES(0)}}}},
    [CHECK_OWN_FCNTL] = {DENY_VALUES,
                         {{{1, VALUES(CMD_OFD_GETLK, CMD_OFD_SETLK, CMD_OFD_SETLKW, CMD_SETLEASE,
                                      CMD_SETDELEG, CMD_NOTIFY)}},
                          {{1, VALUES(CMD_SETOWN, CMD_SETSIG, CMD_SETOWN_EX)}}}},
    [CHECK_OWN_SENDTO] = {ALLOW, {{{3, MASKED(SEND_MORE | SEND_FASTOPEN, 0)}, {4, VALUES(0)}}}},
    [CHECK_OWN_SENDMSG] = {DENY_BITS, {{{2, 0, SEND_MORE | SEND_FASTOPEN, {0}}}}},
    /* No datagrams: one could be sent to any socket that has a name. */
    [CHECK_OWN_PAIR] = {ALLOW, {{{0, VALUES(FAMILY_UNIX)}, {1, TYPES(TYPE_STREAM, TYPE_SEQPACKET)}, {2, VALUES(0)}}}},
    [CHECK_PRCTL] = {DENY_VALUES,
                     {{{0, VALUES(OPT_SET_SECCOMP, OPT_SET_MM, OPT_SET_PTRACER,
                                  OPT_SCHED_CORE, OPT_MEMORY_MERGE, OPT_SET_VMA)}}}},
    [CHECK_PRCTL_DEBUG] = {DENY_VALUES,
                           {{{0, VALUES(OPT_SET_MM, OPT_SET_PTRACER, OPT_SCHED_CORE,
                                        OPT_MEMORY_MERGE, OPT_SET_VMA)}}}},
    /* Without the query -1, which compile_check adds. */
    [CHECK_PERSONALITY] = {ALLOW, {{{0, VALUES(0, 8, 0x20000, 0x20008, 0x40000)}}}},
    [CHECK_MKNOD] = {ALLOW, {{{1, MODES}}}},
    [CHECK_MKNODAT] = {ALLOW, {{{2, MODES}}}},
    [CHECK_RENAME] = {DENY_BITS, {{{4, 0, WHITEOUT, {0}}}}},
    [CHECK_SCHED] = {ALLOW, {{{1, MASKED(~(uint32_t)RESET_ON_FORK, 0, 3, 5)}}}},
    [CHECK_PRIORITY] = {ALLOW, {{{0, VALUES(0)}}}},
    [CHECK_PERF] = {ALLOW, {{{1, VALUES(0)}}}},
    [CHECK_NOT_INIT] = {DENY_VALUES, {{{0, VALUES(1)}}}},
    [CHECK_RLIMIT] = {DENY_VALUES, {{{0, VALUES(RES_CORE)}}}},
    [CHECK_PRLIMIT] = {DENY_VALUES, {{{0, VALUES(1)}}}}, /* the rest: compile_prlimit */
    [CHECK_SOCKET] = {ALLOW,
                      {UNIX_CLAUSE, INET_CLAUSE(TYPE_STREAM, PROTO_TCP), INET_CLAUSE(TYPE_DGRAM, PROTO_UDP)}},
    [CHECK_SOCKETPAIR] = {ALLOW, {UNIX_CLAUSE}},
    [CHECK_SOCKOPT] = {ALLOW, {{{0}}}}, /* all of it: sockopts, compile_sockopt */
    [CHECK_SENDTO] = {DENY_BITS, {{{3, 0, SEND_MORE, {0}}}}},
    [CHECK_SENDMSG] = {DENY_BITS, {{{2, 0, SEND_MORE, {0}}}}},
    [CHECK_NOWAIT] = {DENY_BITS, {{{5, 0, READ_NOWAIT, {0}}}}},
    [CHECK_WATCH] = {DENY_BITS, {{{2, 0, WATCH_READS, {0}}}}},
    [CHECK_MMAP] = {DENY_BITS, {{{3, 0, MAP_HUGE, {0}}}}},
    [CHECK_MADVISE] = {DENY_VALUES, {{{2, VALUES(ADVICE_MERGEABLE, ADVICE_COLLAPSE)}}}},
    [CHECK_FADVISE] = {DENY_VALUES, {{{3, VALUES(ADVICE_DONTNEED)}}}},
    [CHECK_MEMFD] = {DENY_BITS, {{{1, 0, MEMFD_HUGE, {0}}}}},
    [CHECK_SHMGET] = {DENY_BITS, {{{2, 0, SHM_HUGE, {0}}}}},
    [CHECK_CHMOD] = {DENY_BITS, {{{1, 0, MODE_SETID, {0}}}}},
    [CHECK_CHMODAT] = {DENY_BITS, {{{2, 0, MODE_SETID, {0}}}}},
    [CHECK_OPEN] = {DENY_BITS, {{{2, 0, MODE_SETID, {0}}, {1, 0, OPEN_CREATES, {0}}}}},
    [CHECK_OPENAT] = {DENY_BITS, {{{3, 0, MODE_SETID, {0}}, {2, 0, OPEN_CREATES, {0}}}}},
    [CHECK_MKNOD_PLAIN] = {ALLOW, {{{1, PLAIN_MODES}}}},
    [CHECK_MKNODAT_PLAIN] = {ALLOW, {{{2, PLAIN_MODES}}}},
};

/* The options that setsockopt(2) sets, by level and number. Left out is what keeps memory that no
 * limit counts (filters, keys, packet options, flow labels, memberships, saved SYNs), what loads
 * modules or changes code paths of the whole host (TCP_ULP, UDP_ENCAP, UDP_GRO, TCP_TX_DELAY; times
 * of packets, with each first and last socket that asks for them), and what nobody has asked for. Levels are in the order of their use. */
struct span {
    unsigned char first, last;
};
struct sockopt_level {
    unsigned char level;
    unsigned char count;
    struct span spans[8];
};
#define SPANS(...) sizeof((struct span[]){__VA_ARGS__}) / sizeof(struct span), { __VA_ARGS__ }

static const struct sockopt_level sockopts[] = {
    /* to SO_BINDTODEVICE; SO_DETACH_FILTER to SO_INCOMING_CPU without SO_TIMESTAMP*; SO_BINDTOIFINDEX;
     * time limits of 64 bits; SO_TXREHASH to SO_PASSPIDFD */
    {LEVEL_SOCKET,
     SPANS({1, 25}, {27, 28}, {30, 34}, {36, 36}, {38, 49}, {62, 62}, {66, 67}, {74, 76})},
    /* TCP_NODELAY to TCP_CONGESTION; TCP_THIN_*, TCP_USER_TIMEOUT; TCP_FASTOPEN to
     * TCP_NOTSENT_LOWAT; TCP_FASTOPEN_CONNECT; TCP_INQ */
    {PROTO_TCP, SPANS({1, 13}, {16, 18}, {23, 25}, {30, 30}, {36, 36})},
    /* IP_TOS, IP_TTL, IP_HDRINCL; IP_RECVOPTS to IP_FREEBIND; IP_PASSSEC to IP_RECVERR_RFC4884;
     * IP_MULTICAST_*; IP_DROP_MEMBERSHIP; IP_MULTICAST_ALL to IP_LOCAL_PORT_RANGE */
    {PROTO_IP, SPANS({1, 3}, {6, 15}, {18, 26}, {32, 34}, {36, 36}, {49, 51})},
    /* IPV6_UNICAST_HOPS, IPV6_MULTICAST_*; IPV6_DROP_MEMBERSHIP to IPV6_V6ONLY;
     * IPV6_MULTICAST_ALL to IPV6_RECVERR_RFC4884; IPV6_RECVPKTINFO to IPV6_RECVHOPOPTS;
     * IPV6_RECVRTHDR; IPV6_RECVDSTOPTS; IPV6_RECVPATHMTU to IPV6_AUTOFLOWLABEL;
     * IPV6_ADDR_PREFERENCES to IPV6_FREEBIND */
    {PROTO_IPV6,
     SPANS({16, 19}, {21, 26}, {29, 31}, {49, 53}, {56, 56}, {58, 58}, {60, 68}, {72, 78})},
    /* UDP_NO_CHECK6_*, UDP_SEGMENT */
    {PROTO_UDP, SPANS({101, 103})},
};
#define SOCKOPT_LEVELS (sizeof sockopts / sizeof sockopts[0])
