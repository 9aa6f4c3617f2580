#include <array>
#include <cstring>

#include "call.h"

namespace torch_tpu::pjrt {

namespace {

// The dims live in the plugin, as long as the buffer.
std::span<const int64_t> dims_of(const PJRT_Api* api, PJRT_Buffer* buffer) {
  Args<PJRT_Buffer_Dimensions_Args> args;
  args.buffer = buffer;
  PJRT_CALL(api, PJRT_Buffer_Dimensions, args);
  return {args.dims, args.num_dims};
}

// Bytes of an element on a host, 0 for types that pack several in a byte.
size_t element_bytes(int type) {
  switch (type) {
    case PJRT_Buffer_Type_PRED:
    case PJRT_Buffer_Type_S8:
    case PJRT_Buffer_Type_U8:
    case PJRT_Buffer_Type_F8E5M2:
    case PJRT_Buffer_Type_F8E4M3FN:
    case PJRT_Buffer_Type_F8E4M3B11FNUZ:
    case PJRT_Buffer_Type_F8E5M2FNUZ:
    case PJRT_Buffer_Type_F8E4M3FNUZ:
    case PJRT_Buffer_Type_F8E4M3:
    case PJRT_Buffer_Type_F8E3M4:
    case PJRT_Buffer_Type_F8E8M0FNU:
      return 1;
    case PJRT_Buffer_Type_S16:
    case PJRT_Buffer_Type_U16:
    case PJRT_Buffer_Type_F16:
    case PJRT_Buffer_Type_BF16:
      return 2;
    case PJRT_Buffer_Type_S32:
    case PJRT_Buffer_Type_U32:
    case PJRT_Buffer_Type_F32:
      return 4;
    case PJRT_Buffer_Type_S64:
    case PJRT_Buffer_Type_U64:
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_C64:
      return 8;
    case PJRT_Buffer_Type_C128:
      return 16;
    default:
      return 0;
  }
}

bool row_major(const PJRT_Buffer_MemoryLayout& layout, size_t rank) {
  if (layout.type != PJRT_Buffer_MemoryLayout_Type_Tiled || layout.tiled.num_tiles != 0 ||
      layout.tiled.minor_to_major_size != rank) {
    return false;
  }
  for (size_t i = 0; i < rank; ++i) {
    if (layout.tiled.minor_to_major[i] != static_cast<int64_t>(rank - 1 - i)) {
      return false;
    }
  }
  return true;
}

// One call that only answers a question; false also where the plugin has no such function.
template <class A, class Given>
bool ask(const PJRT_Api* api, PJRT_Error* (*PJRT_Api::*function)(A*), Given& args) {
  if (!has(api, function)) {
    return false;
  }
  PJRT_Error* error = (api->*function)(&args);
  ignore(api, error);
  return error == nullptr;
}

// The CPU plugin copies on a thread of its own, 25 to 60 us for a scalar. Reading a finished
// buffer's memory takes a tenth of one, so do that where the memory is plain host memory. False
// where it isn't, or anything is unusual; the plugin's own copy then serves or says what is wrong.
bool copy_at_once(const PJRT_Api* api, PJRT_Buffer* buffer, std::span<const int64_t> dims,
                  void* host, size_t size) {
  Args<PJRT_Buffer_IsOnCpu_Args> where;
  where.buffer = buffer;
  if (!ask(api, &PJRT_Api::PJRT_Buffer_IsOnCpu, where) || !where.is_on_cpu) {
    return false;
  }
  Args<PJRT_Buffer_ReadyEvent_Args> ready;
  ready.buffer = buffer;
  if (!ask(api, &PJRT_Api::PJRT_Buffer_ReadyEvent, ready)) {
    return false;
  }
  const Event event(api, ready.event);
  Args<PJRT_Event_Await_Args> outcome;  // a failed program's buffer is ready, too
  outcome.event = ready.event;
  if (!event.ready() || !ask(api, &PJRT_Api::PJRT_Event_Await, outcome)) {
    return false;
  }

  Args<PJRT_Buffer_ElementType_Args> element;
  element.buffer = buffer;
  if (!ask(api, &PJRT_Api::PJRT_Buffer_ElementType, element)) {
    return false;
  }
  size_t bytes = element_bytes(element.type);
  for (const int64_t dim : dims) {
    bytes *= static_cast<size_t>(dim);
  }
  // A different size on the device means that there is more to it, a dynamic shape for example.
  Args<PJRT_Buffer_OnDeviceSizeInBytes_Args> on_device;
  on_device.buffer = buffer;
  if (bytes == 0 || bytes > size ||
      !ask(api, &PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes, on_device) ||
      on_device.on_device_size_in_bytes != bytes) {
    return false;
  }
  if (dims.size() > 1) {
    Args<PJRT_Buffer_GetMemoryLayout_Args> layout;
    layout.buffer = buffer;
    if (!ask(api, &PJRT_Api::PJRT_Buffer_GetMemoryLayout, layout) ||
        !row_major(layout.layout, dims.size())) {
      return false;
    }
  }
  Args<PJRT_Buffer_UnsafePointer_Args> memory;
  memory.buffer = buffer;
  if (!ask(api, &PJRT_Api::PJRT_Buffer_UnsafePointer, memory) || memory.buffer_pointer == 0) {
    return false;
  }
  std::memcpy(host, reinterpret_cast<const void*>(memory.buffer_pointer), bytes);
  return true;
}

}  // namespace

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    api_ = other.api_;
    buffer_ = std::exchange(other.buffer_, nullptr);
  }
  return *this;
}

void Buffer::reset() {
  if (buffer_ != nullptr) {
    Args<PJRT_Buffer_Destroy_Args> args;
    args.buffer = std::exchange(buffer_, nullptr);
    call_quietly(api_, &PJRT_Api::PJRT_Buffer_Destroy, args);
  }
}

Event Buffer::ready() const {
  Args<PJRT_Buffer_ReadyEvent_Args> args;
  args.buffer = buffer_;
  PJRT_CALL(api_, PJRT_Buffer_ReadyEvent, args);
  return Event(api_, args.event);
}

Event Buffer::to_host(void* host, size_t size) const {
  const std::span<const int64_t> dims = dims_of(api_, buffer_);
  if (host != nullptr && copy_at_once(api_, buffer_, dims, host, size)) {
    return Event();
  }
  const size_t rank = dims.size();
  // A null destination would only ask for the size; an array of no elements has nowhere to go.
  char nothing = 0;
  Args<PJRT_Buffer_ToHostBuffer_Args> args;
  args.src = buffer_;
  args.dst = host != nullptr ? host : &nothing;
  args.dst_size = size;

  // Devices choose their own order of dims (a TPU does), so ask for row-major where it matters.
  std::array<int64_t, 16> few;
  std::vector<int64_t> many;
  Args<PJRT_Buffer_MemoryLayout> layout;
  if (rank > 1) {
    if (rank > few.size()) {
      many.resize(rank);
    }
    int64_t* minor_to_major = rank > few.size() ? many.data() : few.data();
    for (size_t i = 0; i < rank; ++i) {
      minor_to_major[i] = static_cast<int64_t>(rank - 1 - i);
    }
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = sizeof(layout.tiled);
    layout.tiled.minor_to_major = minor_to_major;
    layout.tiled.minor_to_major_size = rank;
    args.host_layout = &layout;
  }
  PJRT_CALL(api_, PJRT_Buffer_ToHostBuffer, args);
  Event done(api_, args.event);
  if (host == nullptr) {
    done.wait();  // `nothing` dies here
  }
  return done;
}

Buffer Buffer::to_device(PJRT_Device* device) const {
  Args<PJRT_Buffer_CopyToDevice_Args> args;
  args.buffer = buffer_;
  args.dst_device = device;
  PJRT_CALL(api_, PJRT_Buffer_CopyToDevice, args);
  return Buffer(api_, args.dst_buffer);
}

PJRT_Device* Buffer::device() const {
  Args<PJRT_Buffer_Device_Args> args;
  args.buffer = buffer_;
  PJRT_CALL(api_, PJRT_Buffer_Device, args);
  return args.device;
}

bool Buffer::deleted() const {
  Args<PJRT_Buffer_IsDeleted_Args> args;
  args.buffer = buffer_;
  PJRT_CALL(api_, PJRT_Buffer_IsDeleted, args);
  return args.is_deleted;
}

ElementType Buffer::element_type() const {
  Args<PJRT_Buffer_ElementType_Args> args;
  args.buffer = buffer_;
  PJRT_CALL(api_, PJRT_Buffer_ElementType, args);
  return args.type;
}

std::vector<int64_t> Buffer::dims() const {
  const auto dims = dims_of(api_, buffer_);
  return {dims.begin(), dims.end()};
}

size_t Buffer::on_device_bytes() const {
  Args<PJRT_Buffer_OnDeviceSizeInBytes_Args> args;
  args.buffer = buffer_;
  PJRT_CALL(api_, PJRT_Buffer_OnDeviceSizeInBytes, args);
  return args.on_device_size_in_bytes;
}

}  // namespace torch_tpu::pjrt
