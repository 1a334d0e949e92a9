/* Every flush to the disk takes SLOW_FLUSH_US microseconds more: what a disk would do that keeps its promises slowly.
 * Loaded into the benchmark's PostgreSQL with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int (*flush_function)(int);

static void wait_a_while(void)
{
    const char *text = getenv("SLOW_FLUSH_US");
    long micros = text ? atol(text) : 0;
    struct timespec rest = {micros / 1000000, micros % 1000000 * 1000};

    while (micros > 0 && nanosleep(&rest, &rest) != 0)
        ;
}

int fsync(int file)
{
    wait_a_while();
    return ((flush_function)dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file)
{
    wait_a_while();
    return ((flush_function)dlsym(RTLD_NEXT, "fdatasync"))(file);
}
