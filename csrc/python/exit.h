// What a process does before the interpreter ends.
#pragma once

namespace torch_tpu {

// Waits until PyTorch's threads for backward passes have let go of what they ran. They drop a
// pass's Python context when it is done, which takes the GIL; a thread that asks for it once the
// interpreter is ending is ended within a destructor, and the process with it.
void finish_backward();

}  // namespace torch_tpu
