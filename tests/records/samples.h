// Records for tests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "host/records/record.h"

namespace gantry::records::testing {

inline Setting sample_setting() {
  return {.target = "x86-64-v3",
          .machine = "Test CPU 1",
          .features = "avx2,fma",
          .threads = 2,
          .precision = "fp32",
          .optimize = "speed",
          .generator = "0.1.0-0123456789abcdef-llvm19.1.7"};
}

/// 64 digits that end in the number.
inline std::string sample_work(int number = 1) {
  return fmt::format("{:064x}", number);
}

/// A confirmed gain of a fifth.
inline Record sample_record() {
  Record record;
  record.key = {sample_work(), sample_setting()};
  record.op = "nn.conv";
  record.decision = {"direct", {{"block", 8}}};
  record.baseline = {"winograd4", {{"block", 16}}};
  record.timing = Timing{.seconds = 0.008,
                         .baseline_seconds = 0.01,
                         .ratio = 0.8,
                         .ratio_low = 0.78,
                         .ratio_high = 0.82,
                         .process_seconds = {0.008, 0.0081},
                         .baseline_process_seconds = {0.01, 0.1 / 3}};
  record.confirmation = true;
  record.timed = "kernel";
  record.model = "resnet18.onnx";
  record.nodes = "layer1.0.1.conv, layer1.0.1.bn";
  record.board = "pi";
  record.beside = "";
  record.date = "2026-11-27T08:05:00Z";
  record.source = "a test";
  return record;
}

/// The same of what is decided for a network as a whole.
inline Record network_record() {
  Record record = sample_record();
  record.op = kNetworkOp;
  record.decision = {"layouts", {}};
  record.parts = {{3, {"direct", {{"block", 8}}}}, {17, {"gemm", {}}}};
  record.baseline = {"own", {}};
  record.timed = "network";
  return record;
}

/// The same with another interval of the ratio.
inline Record with_ratio(Record record, double low, double ratio, double high) {
  record.timing->ratio_low = low;
  record.timing->ratio = ratio;
  record.timing->ratio_high = high;
  return record;
}

inline Record failed(Record record, Outcome outcome) {
  record.outcome = outcome;
  record.timing.reset();
  record.confirmation = false;
  record.reason = "it did not work";
  return record;
}

}  // namespace gantry::records::testing
