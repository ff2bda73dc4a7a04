#include "rpc/server/last_words.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <utility>

#include "device_runtime/src/current_step.h"
#include "rpc/error.h"

namespace gantry::rpc {
namespace {

SharedStep* shared_step = nullptr;

void copy_text(char* to, std::size_t size, const char* from) {
  std::size_t i = 0;
  for (; from && from[i] && i + 1 < size; ++i) to[i] = from[i];
  to[i] = 0;
}

void on_fatal_signal(int number) {
  if (const runtime::StepLabel* label = runtime::current_step.load()) {
    copy_text(shared_step->symbol, sizeof shared_step->symbol, label->symbol);
    copy_text(shared_step->ops, sizeof shared_step->ops, label->ops);
    shared_step->index = label->index;
    copy_text(shared_step->origin, sizeof shared_step->origin, label->origin);
    shared_step->filled = label->index < 0 ? 2 : 1;
  }
  if (number == kDeadlineSignal) ::kill(::getpid(), SIGKILL);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

std::string bounded_text(const char* text, std::size_t size) {
  return std::string(text, ::strnlen(text, size));
}

Error no_memory() {
  return Error(ErrorKind::kBoard, "the board has no memory for another executor");
}

}  // namespace

StepMemory::StepMemory() : descriptor_(::memfd_create("gantry-step", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  // Sealed: if an executor could cut it off, its session would die of reading it.
  if (!descriptor_ || ::ftruncate(descriptor_.get(), sizeof(SharedStep)) != 0 ||
      ::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw no_memory();
  map();
  new (step_) SharedStep{};
}

StepMemory::StepMemory(UniqueFd descriptor) : descriptor_(std::move(descriptor)) {
  map();
}

StepMemory::~StepMemory() {
  ::munmap(step_, sizeof(SharedStep));
}

void StepMemory::map() {
  void* memory =
      ::mmap(nullptr, sizeof(SharedStep), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  if (memory == MAP_FAILED) throw no_memory();
  step_ = static_cast<SharedStep*>(memory);
}

void report_deaths(SharedStep& step) {
  shared_step = &step;
  static char stack[64 * 1024];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  ::sigaltstack(&alternate, nullptr);  // so that a stack overflow is reported too
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESETHAND;
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, kDeadlineSignal})
    ::sigaction(number, &action, nullptr);
}

std::string place_text(const SharedStep& step) {
  if (step.filled.load() == 0) return "outside of any kernel";
  const std::string symbol = bounded_text(step.symbol, sizeof step.symbol);
  const std::string ops = bounded_text(step.ops, sizeof step.ops);
  const std::string origin = bounded_text(step.origin, sizeof step.origin);
  return "in " + runtime::step_text({symbol.c_str(), ops.c_str(), "", origin.c_str(), step.index});
}

}  // namespace gantry::rpc
