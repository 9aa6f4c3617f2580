// Registration of the kernels that don't go through the recorder.
#pragma once

#include <torch/library.h>

namespace torch_tpu {

void register_native_kernels(torch::Library& library);  // factories, views, storages
void register_copy_kernels(torch::Library& library);
void register_decided_lengths(torch::Library& library);  // their out=

}  // namespace torch_tpu
