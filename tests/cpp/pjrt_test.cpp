// The PJRT layer against a real plugin, named by TORCH_TPU_PJRT_PLUGIN. Run by `make cpp-test`.
#include "pjrt/pjrt.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

using namespace torch_tpu::pjrt;

namespace {

constexpr ElementType kFloat32 = 11;  // PJRT_Buffer_Type_F32

constexpr const char* kAdd = R"(
module @add {
  func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.add %a, %b : tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
})";

using Values = std::array<float, 4>;
const std::array<int64_t, 2> kDims{2, 2};

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

template <typename Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Values run_add(const Client& client, const Executable& add, int ordinal) {
  Values a{1, 2, 3, 4}, b{10, 20, 30, 40}, sum{};
  Buffer left = client.from_host(a.data(), kFloat32, kDims, ordinal);
  Buffer right = client.from_host(b.data(), kFloat32, kDims, ordinal);
  PJRT_Buffer* arguments[] = {left.get(), right.get()};
  PJRT_Buffer* result = nullptr;
  Event done;
  add.execute(arguments, &result, &done);
  done.wait();
  Buffer output(client.plugin()->api(), result);
  output.ready().wait();
  output.to_host(sum.data(), sizeof(sum)).wait();
  return sum;
}

void programs_run_on_every_device(const Client& client) {
  for (int ordinal = 0; ordinal < static_cast<int>(client.devices().size()); ++ordinal) {
    auto add = client.compile(kAdd, compile_options(client.device_id(ordinal)));
    expect(add->num_outputs() == 1, "one output");
    expect(run_add(client, *add, ordinal) == Values{11, 22, 33, 44}, "the sum");
  }
}

void executables_survive_serialisation(const Client& client) {
  auto again = client.deserialize(client.compile(kAdd)->serialize());
  expect(run_add(client, *again, 0) == Values{11, 22, 33, 44}, "the sum of a loaded program");
}

void buffers_know_what_they_hold(const Client& client) {
  Values values{1, 2, 3, 4};
  Buffer buffer = client.from_host(values.data(), kFloat32, kDims, 1);
  expect(buffer.element_type() == kFloat32, "element type");
  expect(buffer.dims() == std::vector<int64_t>{2, 2}, "dims");
  expect(buffer.device() == client.device(1), "device");
  Buffer moved = buffer.to_device(client.device(0));
  expect(moved.device() == client.device(0), "device after a copy");
  Buffer taken = std::move(moved);
  expect(taken && !moved, "a moved buffer has one owner");
}

void events_call_back(const Client& client) {
  Values values{};
  Buffer buffer = client.from_host(values.data(), kFloat32, kDims, 0);
  std::atomic<int> calls{0};
  Event ready = buffer.ready();
  ready.on_ready([&calls](const std::string& error) { calls += error.empty() ? 1 : 100; });
  ready.wait();
  while (calls == 0) {
  }
  expect(calls == 1, "called once, without an error");
}

void mistakes_are_errors(const Client& client) {
  expect(!error_of([&] { client.compile("not a module"); }).empty(), "a bad program");
  expect(!error_of([&] { client.device(99); }).empty(), "a device that does not exist");
  expect(error_of([] { Plugin::load("/nowhere.so"); }).find("/nowhere.so") != std::string::npos,
         "a missing plugin is named");
}

}  // namespace

int main() {
  const char* path = std::getenv("TORCH_TPU_PJRT_PLUGIN");
  if (path == nullptr) {
    std::fprintf(stderr, "TORCH_TPU_PJRT_PLUGIN names no plugin\n");
    return 2;
  }
  auto client = Client::create(Plugin::load(path), {{"cpu_device_count", int64_t{2}}});
  const std::pair<const char*, std::function<void(const Client&)>> tests[] = {
      {"programs run on every device", programs_run_on_every_device},
      {"executables survive serialisation", executables_survive_serialisation},
      {"buffers know what they hold", buffers_know_what_they_hold},
      {"events call back", events_call_back},
      {"mistakes are errors", mistakes_are_errors},
  };
  int failures = 0;
  for (const auto& [name, test] : tests) {
    try {
      test(*client);
      std::printf("ok    %s\n", name);
    } catch (const std::exception& error) {
      ++failures;
      std::printf("FAIL  %s: %s\n", name, error.what());
    }
  }
  return failures == 0 ? 0 : 1;
}
