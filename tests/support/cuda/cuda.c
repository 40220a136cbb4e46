/* A pretended libcuda.so.1: what Tonnage's own programs call. It knows two kernels by their entries, "add" and
 * "work", and does what these do. One kernel of a device runs at a time unless PRETENDED_CUDA_MPS is set.
 *
 * PRETENDED_CUDA: a folder. Of it "log" gets a line for each kernel, and "device" is locked while one runs.
 * PRETENDED_CUDA_REFUSES: the function that fails, with 999. PRETENDED_CUDA_NS: nanoseconds of a round.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAY(function) \
    do { \
        const char *refused = getenv("PRETENDED_CUDA_REFUSES"); \
        if (refused && strcmp(refused, function) == 0) return 999; \
    } while (0)

static const char *entry;

static int opened(const char *name, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("PRETENDED_CUDA"), name);
    return open(path, flags | O_CREAT | O_CLOEXEC, 0600);
}

API int cuInit(unsigned flags) { (void)flags; MAY("cuInit"); return 0; }
API int cuDeviceGetCount(int *count) { MAY("cuDeviceGetCount"); *count = 1; return 0; }
API int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal ? 101 : 0; }
API int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    snprintf(name, (size_t)length, "Pretended GPU");
    return 0;
}
API int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 16 ? 100 : 0;
    return 0;
}
API int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &entry; return 0; }
API int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }
API int cuCtxSetCurrent(void *context) { return context ? 0 : 201; }
API int cuModuleLoadData(void **module, const char *image) {
    MAY("cuModuleLoadData");
    if (!strstr(image, ".version 6.0")) return 218;
    *module = (void *)image;
    return 0;
}
API int cuModuleGetFunction(void **function, void *module, const char *name) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, ".entry %s(", name);
    if (!strstr(module, wanted)) return 500;
    entry = strcmp(name, "add") == 0 ? "add" : "work";
    *function = (void *)entry;
    return 0;
}
API int cuMemAlloc_v2(uint64_t *place, size_t size) {
    void *memory = calloc(1, size);
    *place = (uint64_t)(uintptr_t)memory;
    return memory ? 0 : 2;
}
API int cuMemFree_v2(uint64_t place) { free((void *)(uintptr_t)place); return 0; }
API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}
API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    memcpy(to, (void *)(uintptr_t)from, size);
    return 0;
}
API int cuCtxSynchronize(void) { MAY("cuCtxSynchronize"); return 0; }
API int cuGetErrorName(int code, const char **name) {
    *name = code == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_OTHER";
    return 0;
}

static void add(void **arguments) {
    uint32_t *a = (uint32_t *)(uintptr_t)*(uint64_t *)arguments[0];
    uint32_t *b = (uint32_t *)(uintptr_t)*(uint64_t *)arguments[1];
    uint32_t *sum = (uint32_t *)(uintptr_t)*(uint64_t *)arguments[2];
    for (uint32_t i = 0; i < *(uint32_t *)arguments[3]; i++) sum[i] = a[i] + b[i];
}

/* The rounds of all threads, by doubling. */
static void work(void **arguments, unsigned threads) {
    uint32_t *places = (uint32_t *)(uintptr_t)*(uint64_t *)arguments[0];
    uint32_t rounds = *(uint32_t *)arguments[1], factor = 1, term = 0, f = 1664525, t = 1013904223;
    for (uint32_t left = rounds; left; left >>= 1) {
        if (left & 1) { term = term * f + t; factor *= f; }
        t *= f + 1;
        f *= f;
    }
    for (uint32_t i = 0; i < threads; i++) places[i] = i * factor + term;
    uint64_t ns = (uint64_t)rounds * (uint64_t)atoll(getenv("PRETENDED_CUDA_NS"));
    struct timespec wait = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&wait, NULL);
}

API int cuLaunchKernel(void *function, unsigned blocks, unsigned by, unsigned bz, unsigned threads, unsigned ty,
                       unsigned tz, unsigned shared, void *stream, void **arguments, void **extra) {
    (void)by; (void)bz; (void)ty; (void)tz; (void)shared; (void)stream; (void)extra;
    MAY("cuLaunchKernel");
    int device = opened("device", O_RDWR), log = opened("log", O_WRONLY | O_APPEND);
    if (!getenv("PRETENDED_CUDA_MPS")) flock(device, LOCK_EX);
    if (strcmp(function, "add") == 0) add(arguments);
    else work(arguments, threads);
    dprintf(log, "%d %s %u %u\n", getpid(), (char *)function, blocks, threads);
    close(log);
    close(device); /* and gives the lock back */
    return 0;
}
