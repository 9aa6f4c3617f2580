// The pieces that PrivateUse1 asks a backend for; register_device() installs them all.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "device/runtime.h"

namespace torch_tpu {

c10::DeviceAllocator* allocator();
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);
// Bytes of memory of a device; the machine's where the plugin doesn't say.
int64_t memory_limit(Ordinal ordinal);

at::Generator new_generator(Ordinal ordinal);
const at::Generator& default_generator(Ordinal ordinal);

// Seed and offset of the next random op, after which the offset has advanced by its draws: one, or
// as many as a program has random ops.
std::pair<uint64_t, uint64_t> next_random(const std::optional<at::Generator>& generator,
                                          Ordinal ordinal, uint64_t draws = 1);

void register_allocator();
void register_hooks();

}  // namespace torch_tpu
