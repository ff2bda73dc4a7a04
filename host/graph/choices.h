// What has been made of a node so that it is computed in some way.
#pragma once

namespace gantry {

struct Node;

/// Whether there is any such thing: attributes that AttrVisitor::choices() has, and that are not as they are in a new node.
bool has_choices(const Node& node);

}  // namespace gantry
