// A compile host on loopback whose builds a test plays, and a tuner's way to it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpc/builds/build_client.h"
#include "rpc/builds/build_server.h"

namespace gantry::rpc {

struct Model {
  std::string options, bytes;
  std::uint64_t text_size = 0, weights_size = 0;
};

/// Answers every build with the model's last bytes and the decisions, or as the test says.
class PlayedHandler : public BuildHandler {
 public:
  using Begin = std::function<void()>;
  using Build = std::function<BuildAnswer(const std::string&)>;

  void begin_model(const std::string& options, std::uint64_t text_size, std::uint64_t weights_size) override {
    Begin begin;
    {
      const std::scoped_lock lock(mutex_);
      model_ = {options, "", text_size, weights_size};
      begin = begin_;
    }
    if (begin) begin();
  }
  void add_to_model(std::span<const std::byte> piece) override {
    const std::scoped_lock lock(mutex_);
    model_.bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  void end_model() override { ++models_; }
  BuildAnswer build(const std::string& decisions) override {
    ++builds_;
    Build build;
    std::string module = model().bytes;
    {
      const std::scoped_lock lock(mutex_);
      build = build_;
    }
    if (build) return build(decisions);
    module = module.substr(module.size() - std::min<std::size_t>(module.size(), 3)) + decisions;
    BuildAnswer answer;
    const auto bytes = std::as_bytes(std::span(module));
    answer.module.assign(bytes.begin(), bytes.end());
    answer.steps = "first\nsecond\n";
    return answer;
  }

  void when_a_model_begins(Begin begin) {
    const std::scoped_lock lock(mutex_);
    begin_ = std::move(begin);
  }
  void when_asked(Build build) {
    const std::scoped_lock lock(mutex_);
    build_ = std::move(build);
  }
  Model model() const {
    const std::scoped_lock lock(mutex_);
    return model_;
  }

  std::atomic<int> models_ = 0, builds_ = 0;

 private:
  mutable std::mutex mutex_;
  Begin begin_;
  Build build_;
  Model model_;
};

inline std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class PlayedBuilds : public ::testing::Test {
 protected:
  static BuildServerOptions server_options(const PskKey& key) {
    BuildServerOptions options;
    options.key = key;
    options.address = "127.0.0.1";
    options.generator = "7-abc";
    return options;
  }
  void SetUp() override {
    server_ = std::make_unique<BuildServer>(server_options(key_), handler_);
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    server_->stop();
    thread_.join();
  }
  BuildClientOptions client_options() const {
    BuildClientOptions options;
    options.address = "127.0.0.1:" + std::to_string(server_->port());
    options.key = key_;
    options.generator = "7-abc";
    return options;
  }
  /// It serves who comes next, as if nothing had been.
  void expect_service() {
    BuildClient client(client_options());
    client.connect();
    const std::string model = "text";
    client.put_model("{}", std::as_bytes(std::span(model)), model.size());
    EXPECT_EQ(text_of(client.build("d").module), "extd");
  }
  template <typename Action>
  static std::string message_of(ErrorKind kind, const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  PskKey key_ = generate_key("lease");
  PlayedHandler handler_;
  std::unique_ptr<BuildServer> server_;
  std::thread thread_;
};

}  // namespace gantry::rpc
