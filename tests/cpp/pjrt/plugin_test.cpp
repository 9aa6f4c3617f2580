// Tests of csrc/pjrt against XLA's CPU plugin. From the repository's root:
//
//   SITE=.venv/lib/python3.11/site-packages; HERE=tests/cpp/pjrt
//   FLAGS="-std=c++20 -O2 -g -Wall -Wextra -isystem $SITE/jaxlib/include"
//   g++ $FLAGS -shared -fPIC $HERE/fake_plugin.cpp -o /tmp/pjrt_fake.so
//   g++ $FLAGS $HERE/plugin_test.cpp csrc/pjrt/*.cpp -ldl -pthread -o /tmp/pjrt_test
//   PLUGIN=$SITE/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
//   TF_CPP_MIN_LOG_LEVEL=3 /tmp/pjrt_test $PLUGIN /tmp/pjrt_fake.so
#include <unistd.h>
#include <xla/ffi/api/c_api.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "../../../csrc/pjrt/pjrt.h"

using namespace torch_tpu::pjrt;

namespace {

int passed = 0;
int failed = 0;

#define CHECK(condition)                                                 \
  do {                                                                   \
    if (condition) {                                                     \
      ++passed;                                                          \
    } else {                                                             \
      ++failed;                                                          \
      std::printf("%s:%d: CHECK(%s)\n", __FILE__, __LINE__, #condition); \
    }                                                                    \
  } while (0)

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what()[0] != '\0' ? error.what() : "(empty)";
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found)
    std::printf("  not in \"%s\": \"%.*s\"\n", text.c_str(), int(part.size()), part.data());
  return found;
}

const std::string kAdd = R"(func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32> })";
const std::string kDonate = R"(
func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>)
    -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32> })";
const std::string kMatmul = R"(
func.func @main(%a: tensor<700x700xf32>, %b: tensor<700x700xf32>) -> tensor<700x700xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims=[1]x[0]
      : (tensor<700x700xf32>, tensor<700x700xf32>) -> tensor<700x700xf32>
  return %0 : tensor<700x700xf32> })";

using Floats = std::vector<float>;

Buffer upload(const Client& client, const Floats& data, std::vector<int64_t> dims,
              int ordinal = 0) {
  return client.from_host(data.data(), PJRT_Buffer_Type_F32, dims, ordinal);
}

Floats download(const Buffer& buffer) {
  size_t count = 1;
  for (const int64_t dim : buffer.dims()) count *= static_cast<size_t>(dim);
  Floats host(count);
  buffer.to_host(host.data(), count * sizeof(float)).wait();
  return host;
}

std::vector<Buffer> run(const Client& client, const Executable& executable,
                        const std::vector<const Buffer*>& arguments, Event* done = nullptr) {
  std::vector<PJRT_Buffer*> in;
  for (const Buffer* argument : arguments) in.push_back(argument->get());
  std::vector<PJRT_Buffer*> out(executable.num_outputs());
  executable.execute(in, out.data(), done);
  std::vector<Buffer> outputs;
  for (PJRT_Buffer* buffer : out) outputs.emplace_back(client.plugin()->api(), buffer);
  return outputs;
}

void test_load(const std::string& path, const std::string& fake) {
  const auto plugin = Plugin::load(path);
  CHECK(plugin == Plugin::load(path));
  CHECK(plugin->path() == path);
  CHECK(plugin->api_version().first == 0 && plugin->api_version().second > 0);
  CHECK(plugin->extension(kPjrtExtensionFfi) != nullptr);
  CHECK(plugin->extension(9999) == nullptr);
  plugin->check(nullptr);

  CHECK(contains(error_of([] { Plugin::load("/nowhere/plugin.so"); }), "/nowhere/plugin.so"));
  CHECK(contains(error_of([] { Plugin::load("libm.so.6"); }), "GetPjrtApi"));

  // A plugin is loaded once per path, so each fault gets a name of its own.
  const auto load_fake = [&](const char* kind) {
    const std::string link = "/tmp/pjrt_fake_" + std::to_string(getpid()) + "_" + kind + ".so";
    setenv("PJRT_FAKE", kind, 1);
    CHECK(symlink(fake.c_str(), link.c_str()) == 0);
    std::shared_ptr<Plugin> loaded;
    const std::string error = error_of([&] { loaded = Plugin::load(link); });
    unlink(link.c_str());
    return std::pair(loaded, error);
  };
  const std::string major = load_fake("major").second;
  CHECK(contains(major, "1.200") && contains(major, "0.90"));
  CHECK(contains(load_fake("null").second, "returned nothing"));
  CHECK(contains(load_fake("bare").second, "PJRT_Error_Destroy"));
  CHECK(contains(load_fake("refuses").second, "the fake plugin's own words"));
  const auto [old, error] = load_fake("old");
  CHECK(error.empty() && old != nullptr);
  if (old) {
    const std::string missing = error_of([&] { Client::create(old); });
    CHECK(contains(missing, "PJRT_Client_Create") && contains(missing, "0.7") &&
          contains(missing, "0.90"));
    CHECK(!old->register_ffi_handler("x", nullptr, "Host"));
  }
}

void test_client(const Client& client) {
  CHECK(client.platform_name() == "cpu");
  CHECK(!client.platform_version().empty());
  CHECK(client.devices().size() == 4);
  CHECK(client.device_kind(0) == "cpu");
  CHECK(contains(client.device_description(2), "2"));
  for (int i = 0; i < 4; ++i) CHECK(client.device_id(i) == i);
  client.device_attributes(0);
  MemoryStats stats;
  CHECK(!client.memory_stats(0, &stats));  // the CPU plugin keeps none
  CHECK(contains(error_of([&] { client.device_kind(4); }), "no device 4"));
  CHECK(!error_of([&] { client.device(-1); }).empty());
  CHECK(contains(error_of([&] { Client::create(client.plugin(), {{"cpu_device_count", false}}); }),
                 "cpu_device_count"));
  const std::vector<Option> typed = {{"cpu_device_count", 2}, {"asynchronous", false}};
  CHECK(Client::create(client.plugin(), typed)->devices().size() == 2);
}

void test_buffers(const Client& client) {
  // Every element type comes back bit for bit, at rank 1 and with two dims.
  const int sizes[] = {0,  1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8,
                       16, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1};
  for (int type = 1; type < static_cast<int>(std::size(sizes)); ++type) {
    if (sizes[type] == 0) continue;
    // Values of 0 and 1 are valid for bool and for the types of 1, 2 and 4 bits alike.
    const bool narrow = type == PJRT_Buffer_Type_PRED || type == PJRT_Buffer_Type_S4 ||
                        type == PJRT_Buffer_Type_U4 || type == PJRT_Buffer_Type_S2 ||
                        type == PJRT_Buffer_Type_U2 || type == PJRT_Buffer_Type_F4E2M1FN;
    std::vector<unsigned char> data(static_cast<size_t>(sizes[type]) * 6);
    for (size_t i = 0; i < data.size(); ++i) data[i] = narrow ? i * 5 % 3 % 2 : i * 7 + 1;
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{6}, {2, 3}}) {
      const std::string error = error_of([&] {
        const Buffer buffer = client.from_host(data.data(), type, dims, 0);
        CHECK(buffer.element_type() == type && buffer.dims() == dims);
        std::vector<unsigned char> back(data.size(), 0xee);
        buffer.to_host(back.data(), back.size()).wait();
        CHECK(back == data);
      });
      CHECK(error.empty());
      if (!error.empty()) std::printf("  type %d: %s\n", type, error.c_str());
    }
  }

  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{0}, {3, 0}, {0, 2, 4}}) {
    const Buffer empty = client.from_host(nullptr, PJRT_Buffer_Type_F32, dims, 0);
    empty.to_host(nullptr, 0).wait();
    CHECK(empty.dims() == dims && empty.on_device_bytes() == 0);
  }
  const Buffer scalar = upload(client, {42}, {});
  CHECK(scalar.dims().empty() && download(scalar) == Floats{42} && scalar.on_device_bytes() == 4);
  const std::vector<int64_t> many(20, 1);
  CHECK(download(upload(client, {7}, many)) == Floats{7});

  // The caller's memory is free again when from_host returns.
  Floats large(4 << 20, 1.0f);
  const Buffer copied = upload(client, large, {static_cast<int64_t>(large.size())});
  std::fill(large.begin(), large.end(), 2.0f);
  CHECK(download(copied) == Floats(large.size(), 1.0f));

  float one = 0;
  CHECK(!error_of([&] { copied.to_host(&one, sizeof one).wait(); }).empty());

  Buffer from = upload(client, {1, 2}, {2});
  Buffer moved = std::move(from);
  CHECK(!from && moved);  // NOLINT: what a moved-from buffer is, is the question
  moved = upload(client, {3, 4}, {2});
  CHECK((download(moved) == Floats{3, 4}));
  moved.reset();
  moved.reset();
  CHECK(!moved);
}

void test_execute(const Client& client) {
  const auto add = client.compile(kAdd);
  CHECK(add->num_outputs() == 1 && !add->program().optimized_program().empty());
  const Buffer a = upload(client, {1, 2, 3, 4}, {4});
  CHECK((download(run(client, *add, {&a, &a})[0]) == Floats{2, 4, 6, 8}));
  const auto again = client.deserialize(add->program().serialize());
  CHECK((download(run(client, *again, {&a, &a})[0]) == Floats{2, 4, 6, 8}));

  const auto none = client.compile("func.func @main() { return }");
  CHECK(none->num_outputs() == 0 && run(client, *none, {}).empty());
  const auto swap = client.compile(R"(
func.func @main(%a: tensor<4xf32>, %b: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<4xf32>) {
  %0 = stablehlo.transpose %b, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0, %a : tensor<3x2xf32>, tensor<4xf32> })");
  const Buffer b = upload(client, {1, 2, 3, 4, 5, 6}, {2, 3});
  const auto swapped = run(client, *swap, {&a, &b});
  CHECK((swapped.size() == 2 && download(swapped[0]) == Floats{1, 4, 2, 5, 3, 6}));
  CHECK((download(swapped[1]) == Floats{1, 2, 3, 4}));
  // A result that the program lays out by columns still arrives by rows.
  const auto columns = client.compile(R"(
module attributes {mhlo.layout_mode = "default"} {
func.func @main(%b: tensor<2x3xf32>) -> (tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) {
  return %b : tensor<2x3xf32> } })");
  CHECK((download(run(client, *columns, {&b})[0]) == Floats{1, 2, 3, 4, 5, 6}));

  const auto donate = client.compile(kDonate);
  const auto restored = client.deserialize(donate->program().serialize());
  for (const auto& program : {donate, restored}) {
    const Buffer given = upload(client, {1, 1, 1, 1}, {4});
    CHECK((download(run(client, *program, {&given, &a})[0]) == Floats{2, 3, 4, 5}));
    CHECK(given.deleted() && !a.deleted());
    CHECK(contains(error_of([&] { download(given); }), "donated"));
    CHECK(contains(error_of([&] { given.ready().wait(); }), "donated"));
    CHECK(contains(error_of([&] { run(client, *program, {&given, &a}); }), "donated"));
    CHECK(contains(error_of([&] { run(client, *program, {&a, &a}); }), "donated"));
    CHECK(!a.deleted());
  }

  CHECK(contains(error_of([&] { client.compile("nonsense"); }), "nonsense"));
  CHECK(contains(error_of([&] { client.compile(kAdd, "\xff\xff"); }), "ompile"));
  CHECK(!error_of([&] { client.deserialize("not an executable"); }).empty());
  CHECK(contains(error_of([&] { run(client, *add, {&a}); }), "1 arguments"));
  CHECK(!error_of([&] { run(client, *add, {&a, &b}); }).empty());           // 24 bytes for 16
  CHECK((download(run(client, *add, {&a, &a})[0]) == Floats{2, 4, 6, 8}));  // and it still works
}

void test_devices(const Client& client) {
  for (int ordinal = 0; ordinal < 4; ++ordinal) {
    const auto add = client.compile(kAdd, compile_options(ordinal));
    const auto loaded = client.deserialize(add->program().serialize());
    const Buffer here = upload(client, {1, 2, 3, 4}, {4}, ordinal);
    const Buffer elsewhere = upload(client, {1, 2, 3, 4}, {4}, (ordinal + 1) % 4);
    CHECK(here.device() == client.device(ordinal));
    for (const auto& program : {add, loaded}) {
      const auto sum = run(client, *program, {&here, &here});
      CHECK((download(sum[0]) == Floats{2, 4, 6, 8}));
      CHECK(sum[0].device() == client.device(ordinal));
      CHECK(!error_of([&] { run(client, *program, {&here, &elsewhere}); }).empty());
    }
    const Buffer copy = elsewhere.to_device(client.device(ordinal));
    CHECK(copy.device() == client.device(ordinal) && (download(copy) == Floats{1, 2, 3, 4}));
    const Buffer same = here.to_device(client.device(ordinal));
    CHECK(same.get() != here.get() && (download(same) == Floats{1, 2, 3, 4}));
  }
  CHECK(compile_options(300).size() > compile_options(0).size());  // ids of two bytes
}

void test_events(const Client& client) {
  const Event none;
  CHECK(!none && none.ready());
  none.wait();
  std::atomic<int> calls = 0;
  none.on_ready([&](const std::string& error) { calls += error.empty() ? 1 : 100; });
  CHECK(calls == 1);

  const auto matmul = client.compile(kMatmul);
  const Buffer ones = upload(client, Floats(700 * 700, 1.0f), {700, 700});
  Event done;
  auto product = run(client, *matmul, {&ones, &ones}, &done);
  CHECK(done);
  done.on_ready([&](const std::string& error) { calls += error.empty() ? 1 : 100; });
  Event first = std::move(done);
  done = product[0].ready();
  Floats host(700 * 700);
  const Event copied = product[0].to_host(host.data(), host.size() * sizeof(float));
  product.clear();  // freeing a result that is still being computed and copied is fine
  copied.wait();
  CHECK(host == Floats(700 * 700, 700.0f));
  first.wait();
  done.wait();
  CHECK(first.ready() && done.ready());
  for (int i = 0; i < 1000 && calls < 2; ++i) usleep(1000);
  CHECK(calls == 2);
  first.on_ready([&](const std::string&) { ++calls; });
  CHECK(calls == 3);

  // Events, buffers and programs are used from several threads at once.
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  const auto add = client.compile(kAdd);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Buffer a = upload(client, {1, 2, 3, 4}, {4});
        Event event;
        const auto sum = run(client, *add, {&a, &a}, &event);
        event.wait();
        right += download(sum[0]) == Floats{2, 4, 6, 8};
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(right == 150);
}

// An FFI handler that always fails, a moment after it was called.
XLA_FFI_Error* fail(XLA_FFI_CallFrame* frame) {
  for (auto* entry = frame->extension_start; entry; entry = entry->next) {
    if (entry->type == XLA_FFI_Extension_Metadata) {  // asked about itself, not called
      auto* version = &reinterpret_cast<XLA_FFI_Metadata_Extension*>(entry)->metadata->api_version;
      version->major_version = XLA_FFI_API_MAJOR;
      version->minor_version = XLA_FFI_API_MINOR;
      return nullptr;
    }
  }
  usleep(20000);
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = sizeof args;
  args.message = "the handler gave up";
  args.errc = XLA_FFI_Error_Code_INTERNAL;
  return frame->api->XLA_FFI_Error_Create(&args);
}

void test_failing_programs(const Client& client) {
  CHECK(client.plugin()->register_ffi_handler("torch_tpu_test_fail", reinterpret_cast<void*>(&fail),
                                              "Host"));
  const auto program = client.compile(R"(
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @torch_tpu_test_fail(%a) {api_version = 4 : i32}
      : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32> })");
  const auto add = client.compile(kAdd);
  const Buffer a = upload(client, {1, 2, 3, 4}, {4});
  std::vector<Buffer> bad;
  Event done;
  const std::string at_once = error_of([&] { bad = run(client, *program, {&a}, &done); });
  if (at_once.empty()) {  // how the CPU plugin does it: the error travels with what it produced
    CHECK(contains(error_of([&] { done.wait(); }), "the handler gave up"));
    CHECK(contains(error_of([&] { bad[0].ready().wait(); }), "the handler gave up"));
    CHECK(contains(error_of([&] { download(bad[0]); }), "the handler gave up"));
    const auto poisoned = run(client, *add, {&bad[0], &a});
    CHECK(contains(error_of([&] { download(poisoned[0]); }), "the handler gave up"));
    std::string heard;
    done.on_ready([&](std::string error) { heard = std::move(error); });
    CHECK(contains(heard, "the handler gave up"));
  } else {
    CHECK(contains(at_once, "the handler gave up"));
  }
  CHECK((download(run(client, *add, {&a, &a})[0]) == Floats{2, 4, 6, 8}));

  const auto huge = client.compile(R"(
func.func @main(%a: tensor<f32>) -> tensor<70368744177664xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<70368744177664xf32>
  return %0 : tensor<70368744177664xf32> })");
  const Buffer scalar = upload(client, {1}, {});
  CHECK(contains(error_of([&] { run(client, *huge, {&scalar})[0].ready().wait(); }), "memory"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::printf("usage: %s PLUGIN FAKE_PLUGIN\n", argv[0]);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    test_load(argv[1], argv[2]);
    const auto client = Client::create(Plugin::load(argv[1]), {{"cpu_device_count", 4}});
    test_client(*client);
    test_buffers(*client);
    test_execute(*client);
    test_devices(*client);
    test_events(*client);
    test_failing_programs(*client);
  } catch (const std::exception& error) {
    ++failed;
    std::printf("stopped by: %s\n", error.what());
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
