#include "device/value.h"

#include <c10/util/Exception.h>

#include <array>

namespace torch_tpu {

namespace {

thread_local bool collecting = false;

// Values of storages that the garbage collector freed.
class Collected {
 public:
  void keep(ValuePtr value) {
    std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
  }
  void release() {
    std::vector<ValuePtr> values;
    std::lock_guard lock(mutex_);
    values.swap(values_);
  }

 private:
  std::mutex mutex_;
  std::vector<ValuePtr> values_;
};

Collected& collected() {
  static Collected instance;
  return instance;
}

}  // namespace

pjrt::ElementType element_type(c10::ScalarType dtype) {
  using c10::ScalarType;
  // The numbers are PJRT_Buffer_Type's.
  switch (dtype) {
    case ScalarType::Bool:
      return 1;
    case ScalarType::Char:
      return 2;
    case ScalarType::Short:
      return 3;
    case ScalarType::Int:
      return 4;
    case ScalarType::Long:
      return 5;
    case ScalarType::Byte:
      return 6;
    case ScalarType::UInt16:
      return 7;
    case ScalarType::UInt32:
      return 8;
    case ScalarType::UInt64:
      return 9;
    case ScalarType::Half:
      return 10;
    case ScalarType::Float:
      return 11;
    case ScalarType::Double:
      return 12;
    case ScalarType::BFloat16:
      return 13;
    case ScalarType::ComplexFloat:
      return 14;
    case ScalarType::ComplexDouble:
      return 15;
    case ScalarType::Float8_e5m2:
      return 16;
    case ScalarType::Float8_e4m3fn:
      return 17;
    case ScalarType::Float8_e5m2fnuz:
      return 19;
    case ScalarType::Float8_e4m3fnuz:
      return 20;
    default:
      TORCH_CHECK_TYPE(false, "tpu tensors can't hold ", dtype, ": XLA has no such type");
  }
}

Value::Value(c10::IntArrayRef dims, c10::ScalarType dtype, Ordinal ordinal)
    : state_(State::kPending), dims_(dims.begin(), dims.end()), dtype_(dtype), ordinal_(ordinal) {
  bytes_ = c10::elementSize(dtype);
  for (int64_t dim : dims) bytes_ *= dim;
}

Value::Value(pjrt::Buffer buffer, c10::IntArrayRef dims, c10::ScalarType dtype, Ordinal ordinal)
    : Value(dims, dtype, ordinal) {
  fulfil(std::move(buffer));
}

Value::~Value() {
  if (state() == State::kConcrete) MemoryUse::of(ordinal_).freed(static_cast<int64_t>(bytes_));
}

void Value::fulfil(pjrt::Buffer buffer) {
  buffer_ = std::move(buffer);
  MemoryUse::of(ordinal_).allocated(static_cast<int64_t>(bytes_));
  state_.store(State::kConcrete, std::memory_order_release);
}

void Value::donate() {
  MemoryUse::of(ordinal_).freed(static_cast<int64_t>(bytes_));
  fail("its memory was given to an op that replaces it");
  buffer_.reset();
}

void Value::fail(std::string reason) {
  failure_ = std::move(reason);
  state_.store(State::kFailed, std::memory_order_release);
}

void Value::settle() const {
  if (pending()) Runtime::get().flush(ordinal_, FlushReason::kValue);
  check_not_failed();
  TORCH_CHECK(!pending(),
              "torch_tpu: a value was asked for while the program that gives it was "
              "being made");
}

void Value::raise_failure() const {
  TORCH_CHECK(false,
              "This tensor has no value, because an op that it depends on failed: ", failure_);
}

c10::DataPtr Cell::allocate(Ordinal ordinal, ValuePtr value) {
  auto cell = std::make_unique<Cell>(ordinal);
  cell->value_ = std::move(value);
  Cell* address = cell.release();
  return {address, address, &Cell::free, c10::Device(c10::DeviceType::PrivateUse1, ordinal)};
}

void Cell::free(void* address) {
  std::unique_ptr<Cell> cell(static_cast<Cell*>(address));
  if (collecting && cell->value_) [[unlikely]]
    collected().keep(std::move(cell->value_));
}

void set_collecting(bool value) { collecting = value; }

void release_collected() { collected().release(); }

MemoryUse& MemoryUse::of(Ordinal ordinal) {
  static std::array<MemoryUse, 128> devices;
  return devices[ordinal];
}

void MemoryUse::allocated(int64_t bytes) {
  const int64_t now = bytes_in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  raise(peak_bytes, now);
  raise(peak_tensor_bytes, now);
  allocated_total.fetch_add(bytes, std::memory_order_relaxed);
  allocations.fetch_add(1, std::memory_order_relaxed);
}

void MemoryUse::raise(std::atomic<int64_t>& peak, int64_t now) {
  int64_t before = peak.load(std::memory_order_relaxed);
  while (now > before && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
  }
}

void MemoryUse::freed(int64_t bytes) {
  bytes_in_use.fetch_sub(bytes, std::memory_order_relaxed);
  freed_total.fetch_add(bytes, std::memory_order_relaxed);
  frees.fetch_add(1, std::memory_order_relaxed);
}

void MemoryUse::reset_accumulated() {
  int64_t live = live_allocations();
  allocated_total = bytes_in_use.load();
  freed_total = 0;
  allocations = live;
  frees = 0;
}

}  // namespace torch_tpu
