#include <array>

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
  const size_t rank = dims_of(api_, buffer_).size();
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
