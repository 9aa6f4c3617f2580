#pragma once

namespace torch_tpu {

void register_errors();

}  // namespace torch_tpu
