// Which form computes a node: every form is asked for what it proposes, and the rule here takes one of those that read and
// write images in the same orders of axes. Between different orders the whole network decides, conversions counted
// (host/passes/choose_forms.h): what a bid counts there is its prediction by its promise.
//
// 1. Bids of the highest claim compete.
// 2. Of those without tile units the least predicted by promise is taken: Winograd's transformations are predicted less
//    well than sums of products, so its bids must promise a tenth.
// 3. The least of those on tile units replaces it if it is below its promise of that.
// Where no bid may be taken the node stays plain.
#pragma once

#include <memory>

#include "host/forms/form.h"

namespace gantry::forms {

/// Of every form of the node on this device, in the order of the list.
std::vector<Bid> all_bids(const FormQuestion& question, const FormContext& context);
/// That of the name which the node may have; null if there is none.
const Form* find_form(std::string_view name, const FormQuestion& question, const FormContext& context);
/// Form::hopeless of a decision that fits the node.
Misfit hopeless(const FormQuestion& question, const Decision& decision, const FormContext& context);
/// Null where none may be taken.
const Bid* best_of(std::span<const Bid> bids);
/// Of the highest claim, the best for each way in which images lie; none where none may be taken. `orders`: parallel to
/// the bids.
std::vector<FormOption> options_of(std::span<const Bid> bids, std::span<const NodeOrders> orders);

/// Forms for a target; `network`: of what the nodes are that will be asked about, null for layers by
/// themselves. `spill` as in FormContext.
std::unique_ptr<FormSet> make_forms(const Target& target, bool small_weights = false,
                                    const Function* network = nullptr, SpillFile* spill = nullptr);
std::unique_ptr<FormSet> make_forms(FormContext context);

}  // namespace gantry::forms
