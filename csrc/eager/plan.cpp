#include "eager/plan.h"

namespace torch_tpu {

namespace {

std::unique_ptr<Compiler>& compiler_slot() {
  static std::unique_ptr<Compiler> instance;
  return instance;
}

// Taken before the GIL, never while holding it.
std::recursive_mutex& compile_mutex() {
  static std::recursive_mutex instance;
  return instance;
}

}  // namespace

void set_compiler(std::unique_ptr<Compiler> compiler) { compiler_slot() = std::move(compiler); }
Compiler& compiler() { return *compiler_slot(); }

CompileTurn::CompileTurn() : lock_(compile_mutex()) {}

ProgramSource alone(const Plan& plan, std::vector<Edge> edges, std::span<const uint32_t> donated,
                    Ordinal ordinal) {
  ProgramSource source{{}, {}, {donated.begin(), donated.end()}, ordinal};
  source.steps.push_back({&plan, std::move(edges)});
  for (uint32_t place = 0; place < plan.outputs(); ++place) source.live.push_back(place);
  return source;
}

ProgramPtr program_of(const ProgramSource& source) {
  const Plan& plan = *source.steps[0].plan;
  CompileTurn turn;
  if (ProgramPtr found = plan.programs.find(source.donated)) return found;
  ProgramPtr made = compiler().compile(source);
  plan.programs.add(source.donated, made);
  return made;
}

}  // namespace torch_tpu
