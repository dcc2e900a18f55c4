/* What a node process is told by its clocks and its disk, steered from outside while it runs.
 *
 * Preloaded into one process. A page of memory shared with the harness holds what is to happen; with the page as it is
 * made, every call below does exactly what it does without this library. Two variables of the environment name the page
 * and the directory below which file descriptors are concerned; without them nothing is touched.
 *
 * The page is an array of 64-bit words, each written by one side only, the layout is `Word` in preload.py. The clock's
 * three words change together under a sequence number that is odd meanwhile.
 *
 * Calls go to the kernel by their numbers; only the clock is read through the C library, which needs no system call for
 * it. `syscall` is watched itself: all is passed on as it is, but for syncs that the kernel is to carry out on its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define VERSION 1

/* Operations on files, as bits of FAIL_MASK. */
#define WRITES 1
#define SYNCS 2
#define RESERVES 4
#define CUTS 8
#define NAMES 16
#define READS 32

enum word {
    W_VERSION,
    /* Clocks. */
    W_WALL_OFFSET_NS,
    W_STROBE_NS,
    W_STROBE_PERIOD_NS,
    W_SEQUENCE,
    W_BASE_REAL_NS,
    W_BASE_OWN_NS,
    W_RATE_PPB,
    /* Disk. */
    W_SYNC_DELAY_NS,
    W_SYNC_LIES,
    W_SHORT_WRITES,
    W_FAIL_ERRNO,
    W_FAIL_MASK,
    W_FAIL_AFTER,
    W_FAIL_COUNT,
    /* What happened; written by the process. */
    W_WALL_READS,
    W_WALL_OWN_NS,
    W_WALL_REAL_NS,
    W_MONOTONIC_READS,
    W_MONOTONIC_OWN_NS,
    W_MONOTONIC_REAL_NS,
    W_DELAYED,
    W_LIED,
    W_SHORTENED,
    W_FAILED,
    WORDS
};

/* The `syscall` of the C library: ours hides it. */
static long (*libc_syscall)(long, ...);

static long (*the_kernel(void))(long, ...) {
    if (libc_syscall == NULL)
        libc_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return libc_syscall;
}

#define kernel(...) the_kernel()(__VA_ARGS__)

static _Atomic int64_t *page;
static char below[PATH_MAX];
static size_t below_length;
static _Atomic int64_t latest_own_ns;
static int (*libc_clock_gettime)(clockid_t, struct timespec *);

static int64_t get(enum word word) {
    return atomic_load_explicit(&page[word], memory_order_acquire);
}

static void put(enum word word, int64_t value) {
    atomic_store_explicit(&page[word], value, memory_order_relaxed);
}

static void count(enum word word) {
    atomic_fetch_add_explicit(&page[word], 1, memory_order_relaxed);
}

__attribute__((constructor)) static void begin(void) {
    libc_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    the_kernel();
    const char *path = getenv("QUORUMLOG_FAULT_PAGE"), *directory = getenv("QUORUMLOG_FAULTS_BELOW");
    if (path == NULL || directory == NULL || strlen(directory) >= sizeof below)
        return;
    int descriptor = (int)kernel(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (descriptor < 0)
        return;
    void *mapped = mmap(NULL, WORDS * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    kernel(SYS_close, descriptor);
    if (mapped == MAP_FAILED || ((int64_t *)mapped)[W_VERSION] != VERSION)
        return;
    strcpy(below, directory);
    below_length = strlen(below);
    page = mapped;
}

/* ---------------------------------------------------------------- clocks */

static int64_t real_ns(clockid_t clock) {
    struct timespec now;
    if (libc_clock_gettime != NULL)
        libc_clock_gettime(clock, &now);
    else
        kernel(SYS_clock_gettime, clock, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static int64_t own_wall_ns(clockid_t clock) {
    int64_t real = real_ns(clock), own = real + get(W_WALL_OFFSET_NS), period = get(W_STROBE_PERIOD_NS);
    if (period > 0 && (real_ns(CLOCK_MONOTONIC) / period) % 2)
        own += get(W_STROBE_NS);
    put(W_WALL_REAL_NS, real);
    put(W_WALL_OWN_NS, own);
    count(W_WALL_READS);
    return own;
}

static int64_t own_monotonic_ns(clockid_t clock) {
    int64_t real, own, sequence;
    do {
        sequence = get(W_SEQUENCE);
        real = real_ns(clock);
        int64_t passed = real - get(W_BASE_REAL_NS);
        own = get(W_BASE_OWN_NS) + (int64_t)((__int128)passed * get(W_RATE_PPB) / SECOND);
    } while (sequence % 2 || sequence != get(W_SEQUENCE));
    /* A change of rate between two readings must not turn the clock back. */
    int64_t latest = atomic_load(&latest_own_ns);
    while (own > latest && !atomic_compare_exchange_weak(&latest_own_ns, &latest, own))
        ;
    if (own < latest)
        own = latest;
    put(W_MONOTONIC_REAL_NS, real);
    put(W_MONOTONIC_OWN_NS, own);
    count(W_MONOTONIC_READS);
    return own;
}

int clock_gettime(clockid_t clock, struct timespec *answer) {
    int64_t own;
    if (page != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        own = own_wall_ns(clock);
    else if (page != NULL && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE))
        own = own_monotonic_ns(clock);
    else if (libc_clock_gettime != NULL)
        return libc_clock_gettime(clock, answer);
    else
        return (int)kernel(SYS_clock_gettime, clock, answer);
    answer->tv_sec = own / SECOND;
    answer->tv_nsec = own % SECOND;
    return 0;
}

int gettimeofday(struct timeval *answer, void *zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    answer->tv_sec = now.tv_sec;
    answer->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *answer) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (answer != NULL)
        *answer = now.tv_sec;
    return now.tv_sec;
}

/* A process whose clock is fast waits less than it says, one whose clock is slow waits longer. */
static int real_timeout_ms(int own_ms) {
    int64_t rate = page == NULL ? SECOND : get(W_RATE_PPB);
    if (own_ms <= 0 || rate == SECOND || rate <= 0)
        return own_ms;
    int64_t real_ms = own_ms * SECOND / rate;
    return real_ms < 1 ? 1 : real_ms > INT_MAX ? INT_MAX : (int)real_ms;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms) {
    return (int)kernel(SYS_epoll_pwait, epoll, events, most, real_timeout_ms(timeout_ms), NULL, 8);
}

int poll(struct pollfd *descriptors, nfds_t number, int timeout_ms) {
    int real_ms = real_timeout_ms(timeout_ms);
    struct timespec wait = {real_ms / 1000, real_ms % 1000 * 1000000L};
    return (int)kernel(SYS_ppoll, descriptors, number, timeout_ms < 0 ? NULL : &wait, NULL, 8);
}

/* ---------------------------------------------------------------- disk */

static int is_path_below(const char *path) {
    return strncmp(path, below, below_length) == 0 && (path[below_length] == '/' || path[below_length] == 0);
}

static int is_below(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = kernel(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    return is_path_below(path);
}

/* Whether something is to happen to this kind of call at all: the price of a call in peace. */
static int is_armed(int64_t operation) {
    return page != NULL && (get(W_FAIL_MASK) & operation) != 0;
}

/* Whether this call is one of those that fail; errno is set then. */
static int fails(int64_t operation) {
    if ((get(W_FAIL_MASK) & operation) == 0)
        return 0;
    if (atomic_load(&page[W_FAIL_AFTER]) > 0 && atomic_fetch_sub(&page[W_FAIL_AFTER], 1) > 0)
        return 0;
    int64_t left = atomic_load(&page[W_FAIL_COUNT]);
    do {
        if (left == 0)
            return 0;
    } while (left > 0 && !atomic_compare_exchange_weak(&page[W_FAIL_COUNT], &left, left - 1));
    count(W_FAILED);
    errno = (int)get(W_FAIL_ERRNO);
    return 1;
}

static int descriptor_fails(int64_t operation, int descriptor) {
    return is_armed(operation) && is_below(descriptor) && fails(operation);
}

static int name_fails(const char *path) {
    return is_armed(NAMES) && is_path_below(path) && fails(NAMES);
}

/* Whether this write is to be cut short; never one that has nothing to spare. */
static int is_short(int descriptor, size_t size) {
    if (page == NULL || size < 2 || get(W_SHORT_WRITES) <= 0 || !is_below(descriptor))
        return 0;
    if (atomic_fetch_sub(&page[W_SHORT_WRITES], 1) <= 0)
        return 0;
    count(W_SHORTENED);
    return 1;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t position) {
    if (descriptor_fails(WRITES, descriptor))
        return -1;
    return kernel(SYS_pwrite64, descriptor, bytes, is_short(descriptor, size) ? size / 2 : size, position);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t size, off_t position) {
    return pwrite(descriptor, bytes, size, position);
}

ssize_t write(int descriptor, const void *bytes, size_t size) {
    if (descriptor_fails(WRITES, descriptor))
        return -1;
    return kernel(SYS_write, descriptor, bytes, is_short(descriptor, size) ? size / 2 : size);
}

/* A shortened vector is written as one buffer of half its bytes. */
static ssize_t half_of(int descriptor, const struct iovec *vector, int number, size_t size, off_t position) {
    char *half = malloc(size / 2);
    if (half == NULL)
        return kernel(SYS_pwritev, descriptor, vector, number, position, 0);
    size_t done = 0;
    for (int i = 0; i < number && done < size / 2; i++) {
        size_t part = vector[i].iov_len < size / 2 - done ? vector[i].iov_len : size / 2 - done;
        memcpy(half + done, vector[i].iov_base, part);
        done += part;
    }
    ssize_t written = kernel(SYS_pwrite64, descriptor, half, done, position);
    free(half);
    return written;
}

static size_t bytes_in(const struct iovec *vector, int number) {
    size_t size = 0;
    for (int i = 0; i < number; i++)
        size += vector[i].iov_len;
    return size;
}

ssize_t pwritev(int descriptor, const struct iovec *vector, int number, off_t position) {
    if (descriptor_fails(WRITES, descriptor))
        return -1;
    size_t size = page == NULL ? 0 : bytes_in(vector, number);
    if (is_short(descriptor, size))
        return half_of(descriptor, vector, number, size, position);
    return kernel(SYS_pwritev, descriptor, vector, number, position, 0);
}

ssize_t pwritev64(int descriptor, const struct iovec *vector, int number, off_t position) {
    return pwritev(descriptor, vector, number, position);
}

ssize_t pwritev2(int descriptor, const struct iovec *vector, int number, off_t position, int flags) {
    if (descriptor_fails(WRITES, descriptor))
        return -1;
    size_t size = page == NULL ? 0 : bytes_in(vector, number);
    if (position >= 0 && is_short(descriptor, size))
        return half_of(descriptor, vector, number, size, position);
    return kernel(SYS_pwritev2, descriptor, vector, number, position, 0, flags);
}

ssize_t pwritev64v2(int descriptor, const struct iovec *vector, int number, off_t position, int flags) {
    return pwritev2(descriptor, vector, number, position, flags);
}

ssize_t pread(int descriptor, void *bytes, size_t size, off_t position) {
    return descriptor_fails(READS, descriptor) ? -1 : kernel(SYS_pread64, descriptor, bytes, size, position);
}

ssize_t pread64(int descriptor, void *bytes, size_t size, off_t position) {
    return pread(descriptor, bytes, size, position);
}

/* Takes the time that a sync is to take; whether it is to do nothing then. */
static int lies_late(void) {
    int64_t delay = get(W_SYNC_DELAY_NS);
    if (delay > 0) {
        struct timespec wait = {delay / SECOND, delay % SECOND};
        count(W_DELAYED);
        kernel(SYS_nanosleep, &wait, NULL);
    }
    if (get(W_SYNC_LIES))
        count(W_LIED);
    return get(W_SYNC_LIES) != 0;
}

static int is_sync_steered(void) {
    return page != NULL && (get(W_SYNC_DELAY_NS) > 0 || get(W_SYNC_LIES));
}

static int sync_with(long call, int descriptor) {
    if (is_sync_steered() && is_below(descriptor) && lies_late())
        return 0;
    return descriptor_fails(SYNCS, descriptor) ? -1 : (int)kernel(call, descriptor);
}

/* A sync that the kernel carries out on its own cannot be steered. So while syncs are to be, of whatever file, the kernel
 * takes none, and who asks has to sync in a way that can be. */
long syscall(long number, ...) {
    if (number == SYS_io_submit && page != NULL &&
        (get(W_SYNC_DELAY_NS) > 0 || get(W_SYNC_LIES) || (get(W_FAIL_MASK) & SYNCS) != 0)) {
        errno = EAGAIN;
        return -1;
    }
    long given[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        given[i] = va_arg(rest, long);
    va_end(rest);
    return kernel(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

/* A mapping does not tell its file: a process of a node that writes back what it mapped does that with its data. */
int msync(void *from, size_t size, int flags) {
    if ((flags & MS_SYNC) && is_sync_steered() && lies_late())
        return 0;
    return (flags & MS_SYNC) && is_armed(SYNCS) && fails(SYNCS) ? -1 : (int)kernel(SYS_msync, from, size, flags);
}

int fsync(int descriptor) {
    return sync_with(SYS_fsync, descriptor);
}

int fdatasync(int descriptor) {
    return sync_with(SYS_fdatasync, descriptor);
}

int ftruncate(int descriptor, off_t size) {
    return descriptor_fails(CUTS, descriptor) ? -1 : (int)kernel(SYS_ftruncate, descriptor, size);
}

int ftruncate64(int descriptor, off_t size) {
    return ftruncate(descriptor, size);
}

int fallocate(int descriptor, int mode, off_t position, off_t size) {
    /* Giving room back always works. */
    if ((mode & FALLOC_FL_PUNCH_HOLE) == 0 && descriptor_fails(RESERVES, descriptor))
        return -1;
    return (int)kernel(SYS_fallocate, descriptor, mode, position, size);
}

int fallocate64(int descriptor, int mode, off_t position, off_t size) {
    return fallocate(descriptor, mode, position, size);
}

int posix_fallocate(int descriptor, off_t position, off_t size) {
    return fallocate(descriptor, 0, position, size) == 0 ? 0 : errno;
}

int posix_fallocate64(int descriptor, off_t position, off_t size) {
    return posix_fallocate(descriptor, position, size);
}

static int opened(int directory, const char *path, int flags, mode_t mode) {
    /* Only what makes a name needs room. */
    if ((flags & O_CREAT) && name_fails(path)) {
        struct stat there;
        int code = errno;
        if (fstatat(directory, path, &there, 0) != 0) {
            errno = code;
            return -1;
        }
    }
    return (int)kernel(SYS_openat, directory, path, flags, mode);
}

static mode_t mode_of(int flags, va_list rest) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}

#define OPENER(name, parameters, directory)                                                                            \
    int name parameters {                                                                                              \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_of(flags, rest);                                                                            \
        va_end(rest);                                                                                                  \
        return opened(directory, path, flags, mode);                                                                   \
    }

OPENER(open, (const char *path, int flags, ...), AT_FDCWD)
OPENER(open64, (const char *path, int flags, ...), AT_FDCWD)
OPENER(openat, (int directory, const char *path, int flags, ...), directory)
OPENER(openat64, (int directory, const char *path, int flags, ...), directory)

int rename(const char *source, const char *target) {
    return name_fails(source) ? -1 : (int)kernel(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, target, 0);
}
