// A call of an op, boiled down: which storages it reads, through which views, with which numbers,
// and the key that says whether an earlier call was the same.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/flat_hash_map.h>

#include <optional>
#include <string_view>

#include "device/value.h"
#include "eager/op.h"
#include "eager/stages.h"

namespace torch_tpu {

// A key under construction: bytes, compared in full.
class KeyBuilder {
 public:
  template <typename T>
  void add(T item) {
    static_assert(std::is_trivially_copyable_v<T>);
    const char* bytes = reinterpret_cast<const char*>(&item);
    bytes_.append(bytes, bytes + sizeof(T));
  }
  void add_ints(c10::IntArrayRef items) {
    add(static_cast<uint32_t>(items.size()));
    const char* bytes = reinterpret_cast<const char*>(items.data());
    bytes_.append(bytes, bytes + items.size() * sizeof(int64_t));
  }
  void add_string(std::string_view text) {
    add(static_cast<uint32_t>(text.size()));
    bytes_.append(text.begin(), text.end());
  }
  std::string_view view() const { return {bytes_.data(), bytes_.size()}; }

 private:
  c10::SmallVector<char, 512> bytes_;
};

// One storage that a call touches.
struct Slot {
  Cell* cell;
  ValuePtr value;  // null where the storage was never written
  Dims dims;       // of the Value, or what it would have
  c10::ScalarType dtype;
  bool written = false;
};

// A number that enters the program as an input.
enum class NumberKind : uint8_t { kBool, kInt, kFloat, kComplex };

class Call {
 public:
  // Reads the op's arguments off the top of the stack. Throws PyTorch's errors for tensors that
  // can't be used together. Index tensors on the CPU are copied to the device, on the stack too.
  Call(const Op& op, torch::jit::Stack& stack);

  StageClock clock;
  const Op& op;
  torch::jit::Stack& stack;
  const size_t first;  // where the arguments begin on the stack
  Ordinal ordinal = -1;
  c10::SmallVector<Slot, 8> slots;
  c10::SmallVector<int64_t, 8> ints;   // runtime bools and integers; seed and offset come last
  c10::SmallVector<double, 8> floats;  // runtime floats; a complex number takes two
  KeyBuilder key;

  const c10::IValue& argument(size_t place) const { return stack[first + place]; }
  // The slot of a tensor's storage; it must be one of the call's.
  uint32_t slot_of(const c10::TensorImpl& tensor) const;
  // Draws seed and offset for a random op; once per execution.
  void draw_random();
  // The inputs (filled slots, counted through) whose Values the call replaces while nothing else
  // holds them.
  c10::SmallVector<uint32_t, 4> donated() const;

 private:
  void add(c10::IValue& value, const Argument& argument);
  void add_tensor(const c10::TensorImpl& tensor, bool written);
  void add_host_number(const c10::TensorImpl& tensor);
  uint32_t add_slot(const c10::TensorImpl& tensor);
  void find_device();

  // Slots by cell, once there are too many to look through: lists of parameters are long.
  ska::flat_hash_map<const Cell*, uint32_t> slot_by_cell_;
};

}  // namespace torch_tpu
