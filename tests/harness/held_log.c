/* Holds what InnoDB writes to its log while a file exists: a disk that hangs. See held_log.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ssize_t write_at(int, const void *, size_t, off64_t);

static void hold(int descriptor) {
    char link[64], path[512];
    const char *flag = getenv("HALFHITCH_HELD");
    if (flag == NULL || access(flag, F_OK) != 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (strstr(path, "ib_logfile") == NULL) return;
    while (access(flag, F_OK) == 0) usleep(2000);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t at) {
    hold(descriptor);
    return ((write_at *)dlsym(RTLD_NEXT, "pwrite64"))(descriptor, bytes, count, at);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t at) {
    hold(descriptor);
    return ((write_at *)dlsym(RTLD_NEXT, "pwrite"))(descriptor, bytes, count, at);
}
