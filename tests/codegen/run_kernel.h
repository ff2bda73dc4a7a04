// Runs kernels on this machine: links them, loads the image with the system's loader, calls the entry.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_runtime/include/gantry/kernel_abi.h"
#include "host/codegen/codegen.h"
#include "host/codegen/find_target.h"

namespace gantry {

/// An image loaded from a file that is removed at once.
class LoadedImage {
 public:
  explicit LoadedImage(const CodeImage& image) {
    std::string name = "/tmp/gantry-test-XXXXXX";
    const int fd = mkstemp(name.data());
    if (fd < 0) throw std::runtime_error("no temporary file");
    close_fd(fd);
    std::ofstream(name, std::ios::binary)
        .write(reinterpret_cast<const char*>(image.elf.data()),
               static_cast<std::streamsize>(image.elf.size()));
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::remove(name.c_str());
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  LoadedImage(const LoadedImage&) = delete;
  LoadedImage& operator=(const LoadedImage&) = delete;
  ~LoadedImage() { dlclose(handle_); }
  GantryKernelFn kernel(const std::string& name) const {
    void* symbol = dlsym(handle_, name.c_str());
    if (symbol == nullptr) throw std::runtime_error("no kernel " + name);
    return reinterpret_cast<GantryKernelFn>(symbol);
  }

 private:
  static void close_fd(int fd) { std::fclose(fdopen(fd, "r")); }
  void* handle_ = nullptr;
};

inline Buffer argument(std::string name, DType dtype, Expr count) {
  auto node = std::make_shared<BufferNode>();
  node->name = std::move(name);
  node->dtype = dtype;
  node->element_count = std::move(count);
  return node;
}

inline Buffer local_buffer(std::string name, DType dtype, Expr count) {
  auto node = std::make_shared<BufferNode>();
  node->name = std::move(name);
  node->dtype = dtype;
  node->element_count = std::move(count);
  node->scope = BufferScope::kLocal;
  return node;
}

inline LoopKernel make_kernel(std::string name, std::vector<Buffer> arguments, Stmt body,
                              std::vector<std::string> symbols = {}) {
  LoopKernel kernel;
  kernel.name = std::move(name);
  kernel.arguments = std::move(arguments);
  kernel.input_count = static_cast<int>(kernel.arguments.size()) - 1;
  kernel.symbols = std::move(symbols);
  kernel.body = std::move(body);
  return kernel;
}

inline Expr ramp(Expr base, Expr stride, int lanes) {
  return Expr(std::make_shared<RampNode>(std::move(base), std::move(stride), lanes));
}
inline Expr broadcast(Expr value, int lanes) {
  return Expr(std::make_shared<BroadcastNode>(std::move(value), lanes));
}

/// Compiles for `target` and calls the kernel with these buffers.
inline int32_t run_kernel(const LoopKernel& kernel, std::vector<void*> buffers,
                          std::vector<int64_t> dims = {}, const GantryKernelHost* host = nullptr,
                          const std::string& target = "native") {
  LoadedImage image(build_image({&kernel, 1}, find_target(target), 1));
  return image.kernel(kernel.name)(host, buffers.data(), dims.data());
}

}  // namespace gantry
