// A function keeps the users of its values current.
#include <gmock/gmock.h>

#include "tests/graph/small_ops.h"

namespace gantry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Op<NoAttrs> kSum{"sum"};

struct Users : testing::Test {
  SmallOp sum{kSum, {}};
  TensorType type{DType::kF32, {4}};
  Function f;
  Value* x = f.add_parameter("x", type);
  Value* y = f.add_parameter("y", type);

  Node* add(Value* a, Value* b) { return f.add_node(&sum, nullptr, {a, b}, {type}, {}); }
};

TEST_F(Users, AreListedOnceEach) {
  Node* twice = add(x, x);
  EXPECT_THAT(x->users, ElementsAre(twice));
  EXPECT_THAT(y->users, IsEmpty());
  Node* both = add(x, y);
  EXPECT_THAT(x->users, ElementsAre(twice, both));
}

TEST_F(Users, MoveWithReplacedUses) {
  Node* first = add(x, y);
  Node* second = add(first->result(), x);
  f.outputs = {x};
  f.replace_uses(x, y);
  EXPECT_THAT(x->users, IsEmpty());
  EXPECT_THAT(y->users, ElementsAre(first, second));
  EXPECT_TRUE(f.is_output(y));
  EXPECT_FALSE(f.is_output(x));
  EXPECT_EQ(first->inputs, (std::vector<Value*>{y, y}));
}

TEST_F(Users, FollowASingleInput) {
  Node* node = add(x, x);
  f.set_input(*node, 0, y);
  EXPECT_THAT(x->users, ElementsAre(node));
  EXPECT_THAT(y->users, ElementsAre(node));
  f.set_input(*node, 1, y);
  EXPECT_THAT(x->users, IsEmpty());
}

TEST_F(Users, GoWithRemovedNodes) {
  Node* kept = add(x, y);
  Node* gone = add(x, kept->result());
  f.outputs = {kept->result()};
  f.remove_nodes([&](const Node& node) { return &node == gone; });
  EXPECT_THAT(x->users, ElementsAre(kept));
  EXPECT_THAT(kept->result()->users, IsEmpty());
  EXPECT_EQ(f.only_user(x), kept);
  EXPECT_EQ(f.only_user(kept->result()), nullptr);
}

TEST_F(Users, AreTheCopysOwn) {
  add(x, y);
  const Function copy = f.clone();
  EXPECT_THAT(copy.parameters[0]->users, ElementsAre(copy.nodes()[0]));
}

TEST_F(Users, TakeNoAttributesOfAnotherOp) {
  struct OtherAttrs : AttrsOf<OtherAttrs> {
    void fields(AttrVisitor&) override {}
  };
  EXPECT_THROW(f.add_node(&sum, std::make_shared<OtherAttrs>(), {x, y}, {type}, {}), Error);
}

}  // namespace
}  // namespace gantry
