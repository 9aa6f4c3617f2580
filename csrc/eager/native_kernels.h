// Registration of the kernels that don't go through the recorder.
#pragma once

#include <torch/library.h>

namespace torch_tpu {

void register_native_kernels(torch::Library& library);  // factories, views, storages
void register_copy_kernels(torch::Library& library);
void register_decided_lengths(torch::Library& library);  // their out=
// For nested tensors, and what makes them of dense ones.
void register_nested_kernels(torch::Library& nested, torch::Library& dense);

}  // namespace torch_tpu
