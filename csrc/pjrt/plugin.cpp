#include <dlfcn.h>

#include <map>
#include <mutex>

#include "call.h"

namespace torch_tpu::pjrt {

namespace {

std::string version_text(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string our_version() { return version_text(kPjrtApiMajor, kPjrtApiMinor); }

std::string their_version(const PJRT_Api* api) {
  return version_text(api->pjrt_api_version.major_version, api->pjrt_api_version.minor_version);
}

}  // namespace

std::pair<int, std::string> take_error(const PJRT_Api* api, PJRT_Error* error) {
  Args<PJRT_Error_Message_Args> message;
  message.error = error;
  api->PJRT_Error_Message(&message);
  std::pair<int, std::string> taken(PJRT_Error_Code_UNKNOWN,
                                    std::string(message.message, message.message_size));
  Args<PJRT_Error_GetCode_Args> code;
  code.error = error;
  // Asking for the code can fail too; the message is worth more than a complaint about that.
  if (PJRT_Error* second = api->PJRT_Error_GetCode(&code)) {
    ignore(api, second);
  } else {
    taken.first = code.code;
  }
  ignore(api, error);
  return taken;
}

void throw_error(const PJRT_Api* api, PJRT_Error* error) {
  auto [code, message] = take_error(api, error);
  throw Error(code, message);
}

void ignore(const PJRT_Api* api, PJRT_Error* error) noexcept {
  if (error != nullptr) {
    Args<PJRT_Error_Destroy_Args> args;
    args.error = error;
    api->PJRT_Error_Destroy(&args);
  }
}

void throw_missing(const PJRT_Api* api, const char* name) {
  throw Error(PJRT_Error_Code_UNIMPLEMENTED, std::string("the PJRT plugin does not offer ") + name +
                                                 ": its C API is version " + their_version(api) +
                                                 ", torch_tpu is written for " + our_version());
}

std::shared_ptr<Plugin> Plugin::load(const std::string& path) {
  // Plugins keep global state (libtpu locks the chips), so a second load must be the first one.
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Plugin>> loaded;
  const std::lock_guard lock(mutex);
  if (const auto found = loaded.find(path); found != loaded.end()) {
    return found->second;
  }

  // Never closed: XLA's threads outlive every client.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw Error(PJRT_Error_Code_NOT_FOUND,
                "cannot load the PJRT plugin " + path + ": " + (why ? why : "unknown reason"));
  }
  const auto get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    throw Error(PJRT_Error_Code_NOT_FOUND,
                path + " is not a PJRT plugin: it has no function GetPjrtApi");
  }
  const PJRT_Api* api = get_api();
  if (api == nullptr) {
    throw Error(PJRT_Error_Code_FAILED_PRECONDITION, "GetPjrtApi of " + path + " returned nothing");
  }
  if (api->pjrt_api_version.major_version != kPjrtApiMajor) {
    throw Error(PJRT_Error_Code_FAILED_PRECONDITION,
                "the PJRT plugin " + path + " has C API version " + their_version(api) +
                    ", torch_tpu is written for " + our_version() + " and needs major version " +
                    std::to_string(kPjrtApiMajor));
  }
  // Without these no other call can report its failure.
  if (!has(api, &PJRT_Api::PJRT_Error_Destroy)) throw_missing(api, "PJRT_Error_Destroy");
  if (!has(api, &PJRT_Api::PJRT_Error_Message)) throw_missing(api, "PJRT_Error_Message");
  if (!has(api, &PJRT_Api::PJRT_Error_GetCode)) throw_missing(api, "PJRT_Error_GetCode");

  Args<PJRT_Plugin_Initialize_Args> args;
  PJRT_CALL(api, PJRT_Plugin_Initialize, args);

  struct Access : Plugin {};  // make_shared can't reach the private constructor
  auto plugin = std::make_shared<Access>();
  plugin->path_ = path;
  plugin->api_ = api;
  loaded.emplace(path, plugin);
  return plugin;
}

std::pair<int, int> Plugin::api_version() const {
  return {api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version};
}

const void* Plugin::extension(int type) const {
  for (const PJRT_Extension_Base* entry = api_->extension_start; entry; entry = entry->next) {
    if (entry->type == type) {
      return entry;
    }
  }
  return nullptr;
}

bool Plugin::register_ffi_handler(std::string_view target, void* handler,
                                  std::string_view platform) const {
  const auto* ffi = static_cast<const PJRT_FFI_Extension*>(extension(kPjrtExtensionFfi));
  if (ffi == nullptr ||
      ffi->base.struct_size < offsetof(PJRT_FFI_Extension, register_handler) + sizeof(void*) ||
      ffi->register_handler == nullptr) {
    return false;
  }
  Args<PJRT_FFI_Register_Handler_Args> args;
  args.target_name = target.data();
  args.target_name_size = target.size();
  args.handler = handler;
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  check(ffi->register_handler(&args));
  return true;
}

void Plugin::check(PJRT_Error* error) const { pjrt::check(api_, error); }

}  // namespace torch_tpu::pjrt
