#include "eager/composites.h"

#include <string_view>
#include <unordered_set>

namespace torch_tpu {

namespace {

const std::unordered_set<std::string_view>& recorded() {
  static const std::unordered_set<std::string_view> names = {
      "aten::clone",
      "aten::convolution",
      "aten::convolution_backward",
      "aten::convolution_overrideable",
      "aten::convolution_backward_overrideable",
      "aten::embedding",
      "aten::fill_.Scalar",
      "aten::repeat",
  };
  return names;
}

}  // namespace

bool is_recorded_composite(const c10::OperatorName& name) {
  return name.name.starts_with("aten::_foreach_") || recorded().contains(name.name);
}

}  // namespace torch_tpu
