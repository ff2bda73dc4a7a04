// A session that may run.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "device_runtime/src/session.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime::testing {

/// Of symbolic_module() and one thread, with an input of 5 by 4.
inline std::unique_ptr<Session> ready_session() {
  auto contents = ModuleContents::from_bytes(share(symbolic_module().write()));
  auto module = Module::create(std::move(*contents));
  auto session = Session::create(*module, {.threads = 1});
  const int64_t shape[] = {5, 4};
  EXPECT_TRUE((*session)->input_storage(0, shape).ok());
  return std::move(*session);
}

}  // namespace gantry::runtime::testing
