// Members that HEARTH_MODULE may name. They exist, and members with tensors are not const, because
// training, loading and moving a module replaces tensors. A const number is allowed. Members with
// tensors that the walk does not reach are refused.
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <hearth/hearth.hpp>

struct Other {};
struct Net {
  const int count = 3;
#ifdef HEARTH_CONST
  const hearth::Linear inner_layer;
#else
  hearth::Linear inner_layer;
#endif
#if defined(HEARTH_MISSPELT)
  HEARTH_MODULE(Net, count, inner_layr)
#elif defined(HEARTH_NO_STRUCT)
  HEARTH_MODULE(inner_layer, count)
#elif defined(HEARTH_OTHER_STRUCT)
  HEARTH_MODULE(Other, count, inner_layer)
#elif defined(HEARTH_TWICE)
  HEARTH_MODULE(Net, inner_layer, count, inner_layer)
#else
  HEARTH_MODULE(Net, count, inner_layer)
#endif
};

void use(const Net& net) {
  hearth::save_weights(net, "folder");
#ifdef HEARTH_VISITOR
  net.visit("", [](const std::string&, hearth::Tensor& tensor) { tensor = hearth::Tensor(); });
#else
  net.visit("", [](const std::string&, const hearth::Tensor&) {});
#endif
}

#ifndef HEARTH_HIDDEN
#define HEARTH_HIDDEN std::map<std::string, hearth::Linear>
#endif
struct Holder {
  HEARTH_HIDDEN layers;
  std::unordered_map<std::string, int> numbers;
  std::variant<int, std::string> choice;
  HEARTH_MODULE(Holder, layers, numbers, choice)
};
void save_holder(const Holder& holder) {
  hearth::save_weights(holder, "folder");
}
