#include "tests/support/tile_registers.h"

#if defined(__x86_64__)
#include <llvm/Support/Signals.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "device_runtime/src/cpu_info.h"

namespace gantry::testing {
namespace {

constexpr int kRegisters = 8, kRows = 16, kRowBytes = 64;
using Row = std::array<uint32_t, kRowBytes / sizeof(uint32_t)>;

/// One thread's tile registers, as Intel's "64 and IA-32 Architectures Software Developer's Manual", volume
/// 1, chapter 18 describes palette 1.
struct Tiles {
  bool configured = false;
  std::array<int, kRegisters> rows{}, row_bytes{};
  std::array<std::array<Row, kRows>, kRegisters> data{};
};

thread_local Tiles tiles;

/// An instruction of AMX: VEX.128, W0, map 0F38 (volume 2, chapters 2 and 3).
struct Instruction {
  uint8_t prefix;  ///< VEX.pp: 0 none, 1 66, 2 F3, 3 F2
  uint8_t opcode;
  int first, second, third;  ///< registers: ModRM.reg, ModRM.rm, VEX.vvvv
  bool in_memory;
  uintptr_t address = 0;
  int64_t stride = 0;  ///< bytes, of the index register
  int bytes;           ///< of the instruction
};

constexpr uint8_t kNone = 0, kF3 = 2, kF2 = 3;
constexpr uint8_t kConfigure = 0x49, kMove = 0x4b, kDotBf16 = 0x5c;

int64_t general_register(const ucontext_t& context, int number) {
  constexpr std::array kOrder = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                 REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kOrder[static_cast<size_t>(number)]];
}

/// The memory operand whose ModRM byte is code[4]: fills address, stride and bytes.
void decode_memory(const ucontext_t& context, const uint8_t* code, Instruction& result) {
  const int mode = code[4] >> 6;
  const int base_high = code[1] & 0x20 ? 0 : 8, index_high = code[1] & 0x40 ? 0 : 8;
  int base = code[4] & 7, at = 5;
  const bool relative = mode == 0 && base == 5;
  bool no_base = relative;
  if (base == 4) {
    const int index = (code[at] >> 3 & 7) + index_high;
    if (index != 4) result.stride = general_register(context, index) << (code[at] >> 6);
    base = code[at] & 7;
    no_base = mode == 0 && base == 5;
    ++at;
  }
  int32_t displacement = 0;
  if (mode == 1) displacement = static_cast<int8_t>(code[at]);
  if (mode == 2 || no_base) std::memcpy(&displacement, code + at, sizeof(displacement));
  result.bytes = at + (mode == 1 ? 1 : mode == 2 || no_base ? 4 : 0);
  int64_t address = displacement;
  if (!no_base) address += general_register(context, base + base_high);
  if (relative) address += reinterpret_cast<intptr_t>(code) + result.bytes;
  result.address = static_cast<uintptr_t>(address);
}

std::optional<Instruction> decode(const ucontext_t& context, const uint8_t* code) {
  const bool vex = code[0] == 0xc4 && (code[1] & 0x1f) == 2 && (code[2] & 0x84) == 0;
  if (!vex) return std::nullopt;
  Instruction result{};
  result.prefix = code[2] & 3;
  result.opcode = code[3];
  result.first = code[4] >> 3 & 7;
  result.second = code[4] & 7;
  result.third = ~(code[2] >> 3) & 7;
  result.in_memory = code[4] >> 6 != 3;
  result.bytes = 5;
  if (result.in_memory) decode_memory(context, code, result);
  return result;
}

bool configure(uintptr_t address) {
  const auto* config = reinterpret_cast<const uint8_t*>(address);
  if (config[0] != 1) return false;
  tiles = {};
  tiles.configured = true;
  for (size_t t = 0; t < kRegisters; ++t) {
    tiles.row_bytes[t] = config[16 + 2 * t] | config[17 + 2 * t] << 8;
    tiles.rows[t] = config[48 + t];
    if (tiles.row_bytes[t] > kRowBytes || tiles.rows[t] > kRows) return false;
  }
  return true;
}

/// What a register holds beyond its rows and columns becomes zero.
void load(int number, uintptr_t address, int64_t stride) {
  const auto tile = static_cast<size_t>(number);
  tiles.data[tile] = {};
  for (int row = 0; row < tiles.rows[tile]; ++row) {
    std::memcpy(tiles.data[tile][static_cast<size_t>(row)].data(),
                reinterpret_cast<const void*>(address + static_cast<uintptr_t>(row * stride)),
                static_cast<size_t>(tiles.row_bytes[tile]));
  }
}

void store(int number, uintptr_t address, int64_t stride) {
  const auto tile = static_cast<size_t>(number);
  for (int row = 0; row < tiles.rows[tile]; ++row) {
    std::memcpy(reinterpret_cast<void*>(address + static_cast<uintptr_t>(row * stride)),
                tiles.data[tile][static_cast<size_t>(row)].data(),
                static_cast<size_t>(tiles.row_bytes[tile]));
  }
}

using Floats = float __attribute__((vector_size(kRowBytes)));
using Words = uint32_t __attribute__((vector_size(kRowBytes)));

/// TDPBF16PS: of the pairs of bf16 that a row of `a` holds, the even ones and the odd ones are summed apart,
/// in f32, each product exact; both are then added to the sum.
__attribute__((target("avx512f,avx512dq,fma"))) bool dot(int sum, int a, int b) {
  const auto c_tile = static_cast<size_t>(sum), a_tile = static_cast<size_t>(a),
             b_tile = static_cast<size_t>(b);
  const int pairs = tiles.row_bytes[a_tile] / 4;
  if (sum == a || sum == b || a == b || tiles.rows[b_tile] != pairs ||
      tiles.rows[a_tile] != tiles.rows[c_tile] || tiles.row_bytes[b_tile] != tiles.row_bytes[c_tile])
    return false;
  for (size_t row = 0; row < static_cast<size_t>(tiles.rows[c_tile]); ++row) {
    Floats even{}, odd{}, total;
    for (size_t pair = 0; pair < static_cast<size_t>(pairs); ++pair) {
      Words two;
      std::memcpy(&two, tiles.data[b_tile][pair].data(), sizeof(two));
      const uint32_t one = tiles.data[a_tile][row][pair];
      const Words low = Words{} + (one << 16), high = Words{} + (one & 0xffff0000u);
      even += reinterpret_cast<Floats>(low) * reinterpret_cast<Floats>(two << 16);
      odd += reinterpret_cast<Floats>(high) * reinterpret_cast<Floats>(two & 0xffff0000u);
    }
    std::memcpy(&total, tiles.data[c_tile][row].data(), sizeof(total));
    total += even + odd;
    std::memcpy(tiles.data[c_tile][row].data(), &total, sizeof(total));
  }
  return true;
}

/// Whether the instruction is one of those that kernels use and is as the manual allows it.
bool execute(const Instruction& i) {
  if (i.opcode == kConfigure && i.prefix == kNone) {
    if (i.in_memory) return configure(i.address);
    tiles = {};  // TILERELEASE
    return true;
  }
  if (!tiles.configured) return false;
  if (i.opcode == kConfigure && i.prefix == kF2 && !i.in_memory) {
    tiles.data[static_cast<size_t>(i.first)] = {};
    return true;
  }
  if (i.opcode == kMove && i.in_memory && (i.prefix == kF2 || i.prefix == kF3)) {
    i.prefix == kF2 ? load(i.first, i.address, i.stride) : store(i.first, i.address, i.stride);
    return true;
  }
  return i.opcode == kDotBf16 && i.prefix == kF3 && !i.in_memory && dot(i.first, i.second, i.third);
}

/// Kernels come as runs of such instructions with few others between: the next ones are executed at once,
/// which saves most of the traps.
void on_illegal_instruction(int signal, siginfo_t*, void* raw) {
  auto& context = *static_cast<ucontext_t*>(raw);
  int executed = 0;
  for (;; ++executed) {
    const auto* code = reinterpret_cast<const uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
    const std::optional<Instruction> instruction = decode(context, code);
    if (!instruction || !execute(*instruction)) break;
    context.uc_mcontext.gregs[REG_RIP] += instruction->bytes;
  }
  if (executed == 0) {
    // Something else is illegal: it traps again, and the process ends as it would have.
    struct sigaction ends = {};
    ends.sa_handler = SIG_DFL;
    sigaction(signal, &ends, nullptr);
  }
}

bool emulate() {
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  for (const char* needed : {"avx512f", "avx512dq", "avx512vl", "avx512bw", "avx512bf16"}) {
    if (!cpu.has_feature(needed)) return false;
  }
  // LLVM installs its own handlers once, when it first writes a file. Now, or they would replace this one.
  llvm::sys::SetInterruptFunction(nullptr);
  struct sigaction handler = {};
  handler.sa_sigaction = on_illegal_instruction;
  handler.sa_flags = SA_SIGINFO;
  if (sigaction(SIGILL, &handler, nullptr) != 0) return false;
  runtime::add_emulated_features({"amx-tile", "amx-int8", "amx-bf16"});
  return true;
}

}  // namespace

std::string target_with_tile_registers() {
  static const std::string target = [] {
    const runtime::CpuInfo& cpu = runtime::cpu_info();
    // Half-precision instructions belong to the CPU that has AMX, and products of bf16 do without them.
    std::string name = "sapphirerapids";
    const bool here = cpu.has_feature("amx-bf16");
    if (!here && !emulate()) return std::string();
    if (!cpu.has_feature("avx512fp16")) name += "-avx512fp16";
    if (!cpu.has_feature("avxvnni")) name += "-avxvnni";
    return name;
  }();
  return target;
}

}  // namespace gantry::testing

#else
namespace gantry::testing {
std::string target_with_tile_registers() {
  return "";
}
}  // namespace gantry::testing
#endif
