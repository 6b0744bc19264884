/* load ADDRESS PORT TOKEN PATH BODY --clients N --seconds S: keep-alive clients that send the same
 * POST over and over (GET when BODY is empty; --count N at most); prints one line: requests,
 * failures, seconds, rate, median, p99 and least latency in ms. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 1000000

static struct sockaddr_in address;
static char request[65536];
static size_t request_len;
static const char *expected;
static double end_time;
static long count_max = SAMPLES;
static atomic_long begun;
static double *samples;
static atomic_long sample_count;
static atomic_long failures;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One reply with Content-Length; 0 when it is a 2xx that holds what is expected. */
static int read_reply(int fd, char *buf, size_t size)
{
    size_t have = 0;

    for (;;) {
        ssize_t n = recv(fd, buf + have, size - 1 - have, 0);
        if (n <= 0)
            return -1;
        have += (size_t)n;
        buf[have] = '\0';
        char *body = strstr(buf, "\r\n\r\n");
        char *len = strcasestr(buf, "content-length:");
        if (!body || !len)
            continue;
        if (have >= (size_t)(body + 4 - buf) + strtoul(len + 15, NULL, 10))
            return buf[9] == '2' && (!*expected || strstr(body, expected)) ? 0 : 1;
    }
}

static int open_connection(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
        perror("connect");
        exit(1);
    }
    return fd;
}

static void *client(void *arg)
{
    static __thread char buf[262144];
    int fd = open_connection();

    (void)arg;
    while (now() < end_time && atomic_fetch_add(&begun, 1) < count_max) {
        double start = now();
        int bad = send(fd, request, request_len, 0) < 0 ? -1 : read_reply(fd, buf, sizeof buf);
        /* A refusal is quick, and nobody's work: it is counted, and is neither time nor rate. */
        long at = bad ? SAMPLES : atomic_fetch_add(&sample_count, 1);
        if (at < SAMPLES)
            samples[at] = now() - start;
        if (bad)
            atomic_fetch_add(&failures, 1);
        if (bad < 0) {
            close(fd);
            fd = open_connection();
        }
    }
    close(fd);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    int clients = 1;
    double seconds = 3;
    pthread_t threads[1024];

    if (argc < 6)
        return 64;
    expected = "";
    for (int i = 6; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--clients") == 0)
            clients = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--expect") == 0)
            expected = argv[i + 1];
        else if (strcmp(argv[i], "--count") == 0)
            count_max = atol(argv[i + 1]);
    }
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    inet_pton(AF_INET, argv[1], &address.sin_addr);
    const char *verb = *argv[5] ? "POST" : "GET";
    request_len = (size_t)snprintf(request, sizeof request,
                                   "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
                                   "Content-Length: %zu\r\n\r\n%s",
                                   verb, argv[4], argv[3], strlen(argv[5]), argv[5]);
    samples = calloc(SAMPLES, sizeof *samples);
    double start = now();
    end_time = start + seconds;
    for (int i = 0; i < clients && i < 1024; i++)
        pthread_create(&threads[i], NULL, client, NULL);
    for (int i = 0; i < clients && i < 1024; i++)
        pthread_join(threads[i], NULL);
    double took = now() - start;
    long n = sample_count < SAMPLES ? sample_count : SAMPLES;
    if (n == 0)
        return 1;
    qsort(samples, (size_t)n, sizeof *samples, compare);
    printf("%ld %ld %.3f %.1f %.3f %.3f %.3f\n", n + (long)failures, (long)failures, took, (double)sample_count / took,
           samples[n / 2] * 1e3, samples[n * 99 / 100] * 1e3, samples[0] * 1e3);
    return failures ? 1 : 0;
}
