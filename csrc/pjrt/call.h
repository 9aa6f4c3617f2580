// How this folder calls a plugin. Private to csrc/pjrt.
#pragma once

#include <cstddef>

#include "abi.h"
#include "pjrt.h"

namespace torch_tpu::pjrt {

// An argument struct, zeroed, with its size filled in. Plugins refuse a struct that is smaller than
// the one they were built with and take a larger one; new fields are appended and mean "default"
// when zero. So the few words after T let plugins newer than abi.h take our arguments.
template <class T>
struct Args : T {
  Args() : T() { this->struct_size = sizeof(Args); }
  void* later_fields[4] = {};
};

// Throws what the plugin answered and frees it; nothing for null.
[[noreturn]] void throw_error(const PJRT_Api* api, PJRT_Error* error);
inline void check(const PJRT_Api* api, PJRT_Error* error) {
  if (error != nullptr) [[unlikely]] {
    throw_error(api, error);
  }
}
// Frees an error that has nowhere to go (destructors).
void ignore(const PJRT_Api* api, PJRT_Error* error) noexcept;
// Takes an error apart: its code and message; frees it.
std::pair<int, std::string> take_error(const PJRT_Api* api, PJRT_Error* error);

[[noreturn]] void throw_missing(const PJRT_Api* api, const char* name);

// Whether the plugin's table reaches as far as a function and has it.
template <class F>
bool has(const PJRT_Api* api, F PJRT_Api::* function) {
  const auto* end = reinterpret_cast<const char*>(&(api->*function) + 1);
  return static_cast<size_t>(end - reinterpret_cast<const char*>(api)) <= api->struct_size &&
         api->*function != nullptr;
}

template <class A, class Given>
void call(const PJRT_Api* api, PJRT_Error* (*PJRT_Api::*function)(A*), Given& args,
          const char* name) {
  if (!has(api, function)) [[unlikely]] {
    throw_missing(api, name);
  }
  check(api, (api->*function)(&args));
}

// For destructors: does what it can and throws nothing.
template <class A, class Given>
void call_quietly(const PJRT_Api* api, PJRT_Error* (*PJRT_Api::*function)(A*),
                  Given& args) noexcept {
  if (has(api, function)) {
    ignore(api, (api->*function)(&args));
  }
}

// StableHLO (text or bytecode) as a program to compile; it reads `mlir`, which must outlive it.
inline Args<PJRT_Program> mlir_program(std::string_view mlir) {
  static constexpr std::string_view kFormat = "mlir";
  Args<PJRT_Program> program;
  program.code = const_cast<char*>(mlir.data());  // read only; the field serves answers, too
  program.code_size = mlir.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

// Calls a function of the table by name; the name also serves the message when it is missing.
#define PJRT_CALL(api, name, args) ::torch_tpu::pjrt::call((api), &PJRT_Api::name, (args), #name)

}  // namespace torch_tpu::pjrt
