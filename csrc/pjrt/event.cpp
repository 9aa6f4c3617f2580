#include "call.h"

namespace torch_tpu::pjrt {

namespace {

void destroy(const PJRT_Api* api, PJRT_Event* event) noexcept {
  if (event != nullptr) {
    Args<PJRT_Event_Destroy_Args> args;
    args.event = event;
    call_quietly(api, &PJRT_Api::PJRT_Event_Destroy, args);
  }
}

// What on_ready leaves with the plugin until it calls back.
struct Callback {
  const PJRT_Api* api;
  std::function<void(std::string)> done;
};

// noexcept: an exception can't cross the plugin's frames, so one from `done` ends the process here.
void call_back(PJRT_Error* error, void* user_arg) noexcept {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(user_arg));
  std::string message;
  if (error != nullptr) {
    message = take_error(callback->api, error).second;
    if (message.empty()) {
      message = "the operation failed without a message";
    }
  }
  callback->done(std::move(message));
}

}  // namespace

Event::Event(Event&& other) noexcept
    : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    destroy(api_, event_);
    api_ = other.api_;
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

Event::~Event() { destroy(api_, event_); }

bool Event::ready() const {
  if (event_ == nullptr) {
    return true;
  }
  Args<PJRT_Event_IsReady_Args> args;
  args.event = event_;
  PJRT_CALL(api_, PJRT_Event_IsReady, args);
  return args.is_ready;
}

void Event::wait() const {
  if (event_ != nullptr) {
    Args<PJRT_Event_Await_Args> args;
    args.event = event_;
    PJRT_CALL(api_, PJRT_Event_Await, args);
  }
}

void Event::on_ready(std::function<void(std::string)> done) const {
  if (event_ == nullptr) {
    done("");
    return;
  }
  auto callback = std::make_unique<Callback>(Callback{api_, std::move(done)});
  Args<PJRT_Event_OnReady_Args> args;
  args.event = event_;
  args.callback = call_back;
  args.user_arg = callback.get();
  PJRT_CALL(api_, PJRT_Event_OnReady, args);
  // Not touched again: the plugin may have called back, and so freed it, already.
  static_cast<void>(callback.release());
}

}  // namespace torch_tpu::pjrt
