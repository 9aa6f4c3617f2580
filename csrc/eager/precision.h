// How exact products of float32 are.
#pragma once

#include <ATen/Context.h>

namespace torch_tpu {

// What torch.set_float32_matmul_precision set, or PyTorch's newer fp32_precision flags, of which
// those for CUDA are taken as meant for this device. PyTorch's own getter raises where both were
// used.
at::Float32MatmulPrecision matmul_precision();

}  // namespace torch_tpu
