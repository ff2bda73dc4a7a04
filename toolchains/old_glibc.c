/* Lets a program that is linked against a new glibc run with an old one: see toolchains/OldGlibc.cmake, which wraps
 * every function that stands here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The version that all symbols of the first glibc for the architecture have. */
#if defined(__x86_64__)
#define BASE "GLIBC_2.2.5"
#define AFFINITY "GLIBC_2.3.4"
#define CLOCK "GLIBC_2.3.3"
#define NAMES "GLIBC_2.12"
#else
#define BASE "GLIBC_2.17"
#define AFFINITY BASE
#define CLOCK BASE
#define NAMES BASE
#endif

/* A wrapper of `name` around its old version. */
#define OLD_AT(version, type, name, parameters, arguments) \
  type old_##name parameters;                              \
  __asm__(".symver old_" #name "," #name "@" version);     \
  type __wrap_##name parameters;                           \
  type __wrap_##name parameters { return old_##name arguments; }
#define OLD(type, name, parameters, arguments) OLD_AT(BASE, type, name, parameters, arguments)

OLD(int, pthread_create, (pthread_t* t, const pthread_attr_t* a, void* (*f)(void*), void* x), (t, a, f, x))
OLD(int, pthread_join, (pthread_t t, void** result), (t, result))
OLD(int, pthread_detach, (pthread_t t), (t))
OLD(int, pthread_once, (pthread_once_t* o, void (*f)(void)), (o, f))
OLD(int, pthread_sigmask, (int how, const sigset_t* set, sigset_t* old), (how, set, old))
OLD_AT(CLOCK, int, pthread_condattr_setclock, (pthread_condattr_t* a, clockid_t clock), (a, clock))
OLD(int, pthread_attr_getstacksize, (const pthread_attr_t* a, size_t* size), (a, size))
OLD(int, pthread_attr_setstacksize, (pthread_attr_t* a, size_t size), (a, size))
OLD_AT(AFFINITY, int, pthread_getaffinity_np, (pthread_t t, size_t size, cpu_set_t* set), (t, size, set))
OLD_AT(AFFINITY, int, pthread_setaffinity_np, (pthread_t t, size_t size, const cpu_set_t* set), (t, size, set))
OLD(int, pthread_key_create, (pthread_key_t* key, void (*f)(void*)), (key, f))
OLD(int, __pthread_key_create, (pthread_key_t* key, void (*f)(void*)), (key, f))
OLD(int, pthread_key_delete, (pthread_key_t key), (key))
OLD(void*, pthread_getspecific, (pthread_key_t key), (key))
OLD(int, pthread_setspecific, (pthread_key_t key, const void* value), (key, value))
OLD(int, pthread_rwlock_init, (pthread_rwlock_t* lock, const pthread_rwlockattr_t* a), (lock, a))
OLD(int, pthread_rwlock_destroy, (pthread_rwlock_t* lock), (lock))
OLD(int, pthread_rwlock_rdlock, (pthread_rwlock_t* lock), (lock))
OLD(int, pthread_rwlock_wrlock, (pthread_rwlock_t* lock), (lock))
OLD(int, pthread_rwlock_unlock, (pthread_rwlock_t* lock), (lock))
OLD_AT(NAMES, int, pthread_setname_np, (pthread_t t, const char* name), (t, name))
OLD_AT(NAMES, int, pthread_getname_np, (pthread_t t, char* name, size_t size), (t, name, size))
OLD(int, pthread_mutex_timedlock, (pthread_mutex_t* m, const struct timespec* end), (m, end))
OLD(int, dladdr, (const void* address, Dl_info* info), (address, info))
OLD(int, dlclose, (void* library), (library))
OLD(void*, dlopen, (const char* path, int mode), (path, mode))
OLD(void*, dlsym, (void* library, const char* name), (library, name))
OLD(char*, dlerror, (void), ())

/* The old versions differ in how they report errors. */
OLD(double, exp, (double x), (x))
OLD(double, exp2, (double x), (x))
OLD(double, log, (double x), (x))
OLD(double, log2, (double x), (x))
OLD(double, pow, (double x, double y), (x, y))

/* Waiting by another clock than the system's is new. Where somebody sets that clock meanwhile, the wait becomes shorter
 * or longer, which callers have to expect of waits anyway. */
static struct timespec end_by_system_clock(clockid_t clock, const struct timespec* end) {
  struct timespec here, there;
  clock_gettime(CLOCK_REALTIME, &here);
  clock_gettime(clock, &there);
  struct timespec result = {here.tv_sec + end->tv_sec - there.tv_sec, here.tv_nsec + end->tv_nsec - there.tv_nsec};
  for (; result.tv_nsec < 0; --result.tv_sec) result.tv_nsec += 1000000000;
  for (; result.tv_nsec >= 1000000000; ++result.tv_sec) result.tv_nsec -= 1000000000;
  return result;
}
int __wrap_pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const struct timespec* end);
int __wrap_pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const struct timespec* end) {
  const struct timespec here = end_by_system_clock(clock, end);
  return pthread_cond_timedwait(c, m, &here);
}
int __wrap_pthread_mutex_clocklock(pthread_mutex_t* m, clockid_t clock, const struct timespec* end);
int __wrap_pthread_mutex_clocklock(pthread_mutex_t* m, clockid_t clock, const struct timespec* end) {
  const struct timespec here = end_by_system_clock(clock, end);
  return old_pthread_mutex_timedlock(m, &here);
}

/* Libraries of C++ ask this to leave out atomic instructions; "no" is always right. */
char __libc_single_threaded = 0;

/* On both architectures the kernel's struct stat is glibc's. */
int __wrap_stat(const char* path, struct stat* info);
int __wrap_stat(const char* path, struct stat* info) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, 0);
}
int __wrap_lstat(const char* path, struct stat* info);
int __wrap_lstat(const char* path, struct stat* info) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}
int __wrap_fstat(int fd, struct stat* info);
int __wrap_fstat(int fd, struct stat* info) {
  return (int)syscall(SYS_fstat, fd, info);
}
int __wrap_fstat64(int fd, struct stat* info);
int __wrap_fstat64(int fd, struct stat* info) {
  return __wrap_fstat(fd, info);
}
int __wrap_stat64(const char* path, struct stat* info);
int __wrap_stat64(const char* path, struct stat* info) {
  return __wrap_stat(path, info);
}
int __wrap_lstat64(const char* path, struct stat* info);
int __wrap_lstat64(const char* path, struct stat* info) {
  return __wrap_lstat(path, info);
}
int __wrap_fstatat(int fd, const char* path, struct stat* info, int flags);
int __wrap_fstatat(int fd, const char* path, struct stat* info, int flags) {
  return (int)syscall(SYS_newfstatat, fd, path, info, flags);
}

/* For std::random_device, and the names of LLVM's temporary files. */
unsigned __wrap_arc4random(void);
unsigned __wrap_arc4random(void) {
  unsigned number = 0;
  while (syscall(SYS_getrandom, &number, sizeof number, 0) != sizeof number) {
  }
  return number;
}

/* What the heap takes, which LLVM would show beside its timers. */
struct mallinfo2 __wrap_mallinfo2(void);
struct mallinfo2 __wrap_mallinfo2(void) {
  return (struct mallinfo2){0};
}

/* What the unwinder of C++ exceptions asks since glibc 2.35: the object that an address lies in. */
struct Search {
  uintptr_t address;
  struct dl_find_object* result;
};

static int look_at_object(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct Search* search = data;
  const ElfW(Phdr)* frames = NULL;
  uintptr_t start = 0, end = 0;
  int found = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    const uintptr_t from = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) frames = part;
    if (part->p_type != PT_LOAD) continue;
    if (end == 0) start = from;
    end = from + part->p_memsz;
    found |= search->address >= from && search->address < end;
  }
  if (!found || frames == NULL) return 0;
  memset(search->result, 0, sizeof *search->result);
  search->result->dlfo_map_start = (void*)start;
  search->result->dlfo_map_end = (void*)end;
  search->result->dlfo_eh_frame = (void*)(info->dlpi_addr + frames->p_vaddr);
  return 1;
}

int __wrap__dl_find_object(void* address, struct dl_find_object* result);
int __wrap__dl_find_object(void* address, struct dl_find_object* result) {
  struct Search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(look_at_object, &search) == 1 ? 0 : -1;
}

/* Since 2.34 libc runs a program's constructors; before, the program's start code did. */
typedef int (*Main)(int, char**, char**);
typedef void (*Initialiser)(int, char**, char**);
extern Initialiser __init_array_start[], __init_array_end[];
extern void _init(void);

static void run_initialisers(int argc, char** argv, char** environment) {
  _init();
  for (Initialiser* f = __init_array_start; f < __init_array_end; ++f) (*f)(argc, argv, environment);
}

int old___libc_start_main(Main, int, char**, Initialiser, void (*)(void), void (*)(void), void*);
__asm__(".symver old___libc_start_main,__libc_start_main@" BASE);
int __wrap___libc_start_main(Main main, int argc, char** argv, Initialiser init, void (*fini)(void),
                             void (*loader_fini)(void), void* stack_end);
int __wrap___libc_start_main(Main main, int argc, char** argv, Initialiser init, void (*fini)(void),
                             void (*loader_fini)(void), void* stack_end) {
  (void)init;
  return old___libc_start_main(main, argc, argv, run_initialisers, fini, loader_fini, stack_end);
}
