// A kernel that faults on a board, and what that must cost: its session an error that names it, others
// nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cases/case_pack.h"

namespace gantry::gpu_bundle {

/// Two sessions on the board at HOST:PORT, with the pack's modules "first_kernel" and "faulty_kernel".
/// {"result": "pass" or "failed", "steps": [{"name", "result", "text"}]}; never throws.
nlohmann::ordered_json provoke_fault(const conformance::CasePack& pack, const std::string& address);

}  // namespace gantry::gpu_bundle
