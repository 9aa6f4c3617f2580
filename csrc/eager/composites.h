// Ops that PyTorch composes from others, but that we record whole: one program instead of many.
#pragma once

#include <ATen/core/operator_name.h>

namespace torch_tpu {

bool is_recorded_composite(const c10::OperatorName& name);

}  // namespace torch_tpu
