/* The wall clock of the one process that this is loaded into: the true one, plus the nanoseconds
 * that stand in the file which OVERSOLD_WALL_CLOCK names. All other clocks stay as they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset;

__attribute__((constructor)) static void look_up(void) {
    const char *name = getenv("OVERSOLD_WALL_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (failed || !offset || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return (int)failed;
    int64_t moved = *offset, second = 1000000000;
    int64_t nanoseconds = now->tv_nsec + moved % second;
    int64_t carried = nanoseconds < 0 ? -1 : nanoseconds / second;
    now->tv_sec += moved / second + carried;
    now->tv_nsec = nanoseconds - carried * second;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *copy) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return (time_t)-1;
    if (copy) *copy = exact.tv_sec;
    return exact.tv_sec;
}
