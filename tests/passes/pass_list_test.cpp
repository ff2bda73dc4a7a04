// The table of passes.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "host/passes/pass.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using testing::HasSubstr;

std::string error_of_order(const std::vector<std::string>& names, const std::vector<std::string>& ran, const PassContext& context) {
  std::vector<const Pass*> passes;
  for (const std::string& name : names) passes.push_back(find_pass(name));
  try {
    expect_order(passes, Graph{"", Function(), ran}, context);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

PassContext for_gpu() {
  PassContext context;
  context.for_gpu = true;
  return context;
}

TEST(PassList, EachIsFoundByItsNameAndStandsOnce) {
  std::set<std::string_view> names;
  for (const Pass* pass : graph_passes()) {
    EXPECT_TRUE(names.insert(pass->name).second) << pass->name << " twice";
    EXPECT_EQ(find_pass(pass->name), pass);
    EXPECT_FALSE(pass->purpose.empty()) << pass->name;
  }
  EXPECT_EQ(find_pass("no_such_pass"), nullptr);
}

TEST(PassList, WhatAPassWantsBeforeItIsAPassOfEveryLevelThatHasIt) {
  for (const Pass* pass : graph_passes()) {
    for (const std::string_view earlier : pass->after) {
      ASSERT_NE(find_pass(earlier), nullptr) << pass->name << " after " << earlier;
      EXPECT_LE(level_of(*find_pass(earlier)), level_of(*pass)) << pass->name << " after " << earlier;
    }
  }
}

TEST(PassList, EveryPipelineIsInAnOrderThatItsPassesAllow) {
  const Graph graph;
  for (const PassContext& context : {PassContext(), for_gpu()}) {
    for (int level = 0; level <= 3; ++level) {
      std::vector<const Pass*> passes;
      for (const PipelineStep& step : pipeline()) {
        if (step.level <= level) passes.push_back(step.pass);
      }
      EXPECT_NO_THROW(expect_order(passes, graph, context)) << level;
    }
  }
}

TEST(PassList, AMissingPassIsNamedUnlessTheGraphHasBeenThroughIt) {
  EXPECT_THAT(error_of_order({"combine_parallel_dense"}, {}, for_gpu()), HasSubstr("put alter_layout before it"));
  EXPECT_EQ(error_of_order({"combine_parallel_dense"}, {"alter_layout"}, for_gpu()), "");
  EXPECT_EQ(error_of_order({"simplify_inference", "alter_layout", "combine_parallel_dense"}, {}, for_gpu()), "");
  EXPECT_THAT(error_of_order({"fuse_ops", "alter_layout"}, {"simplify_inference"}, {}), HasSubstr("put it before fuse_ops"));
  EXPECT_EQ(error_of_order({"fuse_ops", "dead_code"}, {}, {}), "");
  EXPECT_THAT(error_of_order({"place_devices"}, {}, for_gpu()), HasSubstr("put fuse_ops before it"));
  EXPECT_EQ(error_of_order({"place_devices"}, {}, {}), "") << "it is for GPUs";
}

}  // namespace
}  // namespace gantry
