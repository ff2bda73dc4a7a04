#include "host/driver/pipeline.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "host/ops/op.h"
#include "host/passes/alter_layout.h"
#include "host/passes/passes.h"
#include "host/target/layout_policy.h"

namespace gantry {
namespace {

struct Pass {
  std::string name;
  int opt_level;  ///< runs at this level and above
  std::string purpose;
  std::function<void(Graph&, const Target&)> run;
};

void fold(Graph& graph, bool without_growth) {
  without_growth ? fold_without_growth(graph) : fold_constant(graph);
}

std::vector<Pass> pipeline(int opt_level, Optimize optimize = Optimize::kSpeed) {
  const bool small = optimize == Optimize::kSize;
  const std::vector<Pass> all = {
      {"legalize_floats", 0, "on CPUs f16 and bf16 compute in f32",
       [](Graph& g, const Target& t) {
         if (!t.for_gpu()) legalize_floats(g);
       }},
      {"simplify_inference", 0, "batch normalisation becomes a scale and an offset; dropout goes",
       [](Graph& g, const Target&) { simplify_inference(g); }},
      {"fold_constant", 1, "what depends on constants alone is computed",
       [small](Graph& g, const Target&) { fold(g, small); }},
      {"eliminate_common_subexpr", 1, "what is computed twice is computed once",
       [](Graph& g, const Target&) { eliminate_common_subexpr(g); }},
      {"canonicalize_ops", 1,
       "what models write in several ways gets one form (GELU, layer normalisation, …)",
       [](Graph& g, const Target&) { canonicalize_ops(g); }},
      {"fold_canonical_constants", 1, "folds again, what canonicalize_ops made constant",
       [small](Graph& g, const Target&) { fold(g, small); }},
      {"dead_code", 0, "drops what nothing uses", [](Graph& g, const Target&) { dead_code(g); }},
      {"recognize_attention", 3, "on CPUs scores, softmax and values of attention become one op",
       [](Graph& g, const Target& t) {
         if (!t.for_gpu()) recognize_attention(g, make_attention_policy(t));
       }},
      {"fold_right_operands", 3, "on CPUs matrix products read operands before their transposition or scale",
       [](Graph& g, const Target& t) {
         if (!t.for_gpu()) fold_right_operands(g);
       }},
      {"alter_layout", 3, "chooses algorithms, runs images channels-last, packs weights for the target",
       [small](Graph& g, const Target& t) {
         LayoutPolicy policy = make_layout_policy(t, &g.main);
         if (small) keep_weights_small(policy);
         alter_layout(g, policy);
       }},
      {"simplify_movement", 3, "neighbouring transpositions and reshapes become one, or nothing",
       [](Graph& g, const Target&) { simplify_movement(g); }},
      {"combine_products", 3, "products of the same data become one",
       [](Graph& g, const Target&) { combine_products(g); }},
      {"combine_projections", 3, "queries, keys and values become one product on tile registers",
       [](Graph& g, const Target&) { combine_projections(g); }},
      {"fold_packed_weights", 3, "computes the packed weights",
       [small](Graph& g, const Target&) { fold(g, small); }},
      {"drop_unpacked_weights", 3, "drops the weights as they were",
       [](Graph& g, const Target&) { dead_code(g); }},
      {"fuse_ops", 0, "groups ops into kernels; below level 2 every op is a kernel of its own",
       [opt_level](Graph& g, const Target&) { fuse_ops(g, opt_level >= 2); }},
      {"place_devices", 0, "with a GPU: says what runs there and what on the CPU",
       [](Graph& g, const Target& t) {
         if (t.for_gpu()) place_devices(g);
       }},
  };
  std::vector<Pass> chosen;
  for (const Pass& pass : all) {
    if (pass.opt_level <= opt_level) chosen.push_back(pass);
  }
  return chosen;
}

}  // namespace

std::vector<PassInfo> all_passes() {
  std::vector<PassInfo> passes;
  for (const Pass& pass : pipeline(kMostOptLevel))
    passes.push_back({pass.name, pass.opt_level, pass.purpose});
  return passes;
}

std::vector<std::string> pass_names(int opt_level) {
  std::vector<std::string> names;
  for (const Pass& pass : pipeline(opt_level)) names.push_back(pass.name);
  return names;
}

void run_graph_passes(Graph& graph, const Target& target, const CompileOptions& options) {
  const auto& observe = options.observer.graph_pass;
  if (options.verify) verify(graph, op_set(), "import");
  if (observe) observe("import", graph);
  for (const Pass& pass : pipeline(options.opt_level, options.optimize)) {
    auto start = std::chrono::steady_clock::now();
    {
      TimedSpan span(options.observer.spans, "pass", pass.name);
      pass.run(graph, target);
      span.say("nodes", static_cast<double>(graph.main.nodes().size()));
    }
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    spdlog::debug("pass {}: {} nodes, {:.1f} ms", pass.name, graph.main.nodes().size(), took.count());
    bool check = options.verify;
#ifndef NDEBUG
    check = true;
#endif
    if (check) verify(graph, op_set(), pass.name);
    if (observe) observe(pass.name, graph);
  }
}

}  // namespace gantry
