// Fused eager: calls are recorded as they come and run as one program when they must be.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "eager/cuts.h"
#include "eager/explain.h"
#include "eager/trace.h"

namespace torch_tpu {

// A trace that was seen before: its signature to the end, and its program once there is one.
struct Fused {
  enum class State : uint8_t { kSeen, kCompiling, kReady, kInPieces };

  std::vector<uint32_t> signature;  // the trace's, then counts and places of live and donated
  std::vector<const Plan*> plans;
  std::vector<uint32_t> live, donated;
  std::vector<Check> checks;
  std::vector<Site> sites;  // of the nodes, as they were recorded first
  std::atomic<State> state{State::kSeen};
  ResidentPtr program;
  uint64_t structure = 0;  // of the ops without their shapes
  uint32_t sightings = 0;
  bool unproven = false;  // compiled, and never came again
  Fused* next = nullptr;  // what followed it last time
};

// What one device has recorded and not run. One lock, which no thread waits for with the GIL.
class Fusion {
 public:
  explicit Fusion(Ordinal ordinal) : trace_(ordinal) {}
  static Fusion& of(Ordinal ordinal);

  class Lock {
   public:
    explicit Lock(Fusion& fusion);

   private:
    std::unique_lock<std::recursive_mutex> lock_;
  };

  // The plan that came at this place last time, if it is the one for the op and key.
  const Plan* expected(const Op& op, std::string_view key) const;
  // Defers a call; its results are on the stack, pending.
  void record(const Plan& plan, Call& call);
  void flush(FlushReason reason);

 private:
  Site site_of(const Plan& plan) const;
  void watch_backward();
  void cut(const Plan& plan);
  void run_chunks();
  Trace take_trace();
  void run(Trace trace, FlushReason reason);
  void foresee(const Fused* fused);
  void advance(const Plan& plan);
  Fused& seen(Trace& trace, FlushReport& told);
  Fused& remember(const Trace& trace, std::vector<uint32_t> live, std::vector<uint32_t> donated,
                  FlushReport& told);
  static void tell_difference(const Fused& made, const Fused* nearest, FlushReport& told);
  ProgramPtr prepare(Fused& fused, const Trace& trace, FlushReport& told);
  static ProgramPtr adopt(Fused& fused, ProgramPtr program);
  static void run_whole(const Program& program, const Fused& fused, Trace& trace);
  static void run_in_pieces(Trace& trace);
  void forget_unused();

  std::recursive_mutex mutex_;
  Trace trace_;
  std::vector<Trace> spare_;  // empty ones, for the memory that they hold
  std::optional<Cuts> cuts_;  // once a trace is run in chunks
  int backward_ = -1;         // autograd's id of the backward pass that records

  // The signature's view is the key.
  std::unordered_map<std::string_view, std::unique_ptr<Fused>> fused_;
  struct Structure {
    uint32_t unproven = 0;  // programs that never ran a second trace
    const Fused* latest = nullptr;
  };
  std::unordered_map<uint64_t, Structure> structures_;
  Fused* previous_ = nullptr;        // the last one that ran
  const Fused* foreseen_ = nullptr;  // what comes next if all is as last time: a node of this one
  size_t foreseen_place_ = 0;
};

// Whether new programs compile on a background thread while their ops run one by one.
void set_async_compile(bool enabled);

void flush_all(FlushReason reason);

void register_fusion();

}  // namespace torch_tpu
