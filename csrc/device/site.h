// Where in the user's Python an op comes from.
#pragma once

#include <string>
#include <vector>

namespace torch_tpu {

// A Python line. `file` is interned; null where no Python was running, as on autograd's threads.
struct Site {
  const char* file = nullptr;
  int line = 0;

  std::string text() const;
};

// The innermost Python line of this thread that is not PyTorch's or this package's own. Takes the
// GIL.
Site current_site();
// A line that is known by its file's name. Takes the GIL.
Site site_at(const std::string& file, int line);
// Folders whose lines are not the user's.
void set_library_folders(std::vector<std::string> folders);

}  // namespace torch_tpu
