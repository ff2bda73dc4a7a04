// What a user is told.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "host/support/error.h"

namespace gantry::testing {

/// The message of the user error that `work` ends with, or "no error".
template <typename Work>
std::string message_if_any(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    return error.what();
  }
  return "no error";
}

/// The same; fails where there is none.
template <typename Work>
std::string message_of(const Work& work) {
  const std::string message = message_if_any(work);
  EXPECT_NE(message, "no error");
  return message;
}

}  // namespace gantry::testing
