// As the op's own definition says, with weights as the model has them: where no other form is proposed.
#include "host/forms/form.h"
#include "host/graph/attrs.h"
#include "host/ops/image.h"

namespace gantry::forms {
namespace {

/// Images may be channels-last all the same.
bool made(const Node& node, const Decision&) {
  const auto attrs = node.attrs->clone();
  if (auto* image = dynamic_cast<ImageAttrs*>(attrs.get())) image->channels_last = false;
  const auto defaults = node.op->handle->make_attrs();
  return defaults == nullptr || texts(*attrs, *defaults).choices.empty();
}

}  // namespace

extern const Form plain_form{
    .name = "plain",
    .possible = [](const FormQuestion&, const FormContext&) { return true; },
    .made = made,
};

}  // namespace gantry::forms
