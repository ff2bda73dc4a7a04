/* What LLVM's static library names temporary files by is all that it asks of glibc 2.36: with this in its place the Python
 * package runs with glibc 2.35. host/python/CMakeLists.txt tells the linker to. */
#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

unsigned __wrap_arc4random(void);
unsigned __wrap_arc4random(void) {
  unsigned number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
    // Where that is forbidden: LLVM tries other names until one is free.
    if (errno != EINTR) return (unsigned)getpid() ^ (unsigned)clock();
  }
  return number;
}
